/*
 * The machines, and how hwloc writes them. Beside the GPUs each package has a bridge of
 * NVIDIA's (an NVSwitch), and the machine a VGA adapter of somebody else: neither is a GPU.
 */
#include "test/unit/launcher/bind/machines.h"

#include <string.h>

/* A set of cpus or nodes as hwloc writes it: words of 32 bits, the highest first. */
enum {
    SET_WORDS = 16,
    SET_TEXT_MAX = SET_WORDS * 12
};

struct set {
    unsigned words[SET_WORDS];
};

/* PACKAGES CORES THREADS, STEPS of their cpus and what is special; the kind of GPUs, and their buses. */
static const struct {
    const char *name, *shape, *gpu, *buses;
} models[] = {
    { "p5en.48xl", "2 48 2, 48 1 96 local", "0302 [10de:2335]",
            "0000:59:00.0 0000:5a:00.0 0000:72:00.0 0000:73:00.0 0000:8b:00.0 "
            "0000:8c:00.0 0000:a4:00.0 0000:a5:00.0" },
    { "p6-b200.48xl", "2 48 2, 48 1 96 local", "0302 [10de:2901]",
            "0000:51:00.0 0000:52:00.0 0000:62:00.0 0000:63:00.0 0000:75:00.0 "
            "0000:76:00.0 0000:86:00.0 0000:87:00.0" },
    { "p5.48xl", "2 48 1, 48 1 0 local", "0302 [10de:2330]",
            "0000:53:00.0 0000:64:00.0 0000:75:00.0 0000:86:00.0 0000:97:00.0 "
            "0000:a8:00.0 0000:b9:00.0 0000:ca:00.0" },
    { "p4d.24xl", "2 24 1, 24 1 0 local", "0302 [10de:20b0]",
            "0000:10:1c.0 0000:10:1d.0 0000:20:1c.0 0000:20:1d.0 0000:90:1c.0 "
            "0000:90:1d.0 0000:a0:1c.0 0000:a0:1d.0" },
    { "g5.48xl", "2 48 2, 48 1 96", "0302 [10de:2237]",
            "0000:00:16.0 0000:00:17.0 0000:00:18.0 0000:00:19.0 0000:00:1a.0 "
            "0000:00:1b.0 0000:00:1c.0 0000:00:1d.0" },
    { "nvidiaDGX2", "2 2 1, 24 1 0 local", "0302 [10de:1db8]",
            "0000:34:00.0 0000:36:00.0 0000:39:00.0 0000:3b:00.0 0000:57:00.0 "
            "0000:59:00.0 0000:5c:00.0 0000:5e:00.0 0000:b7:00.0 0000:b9:00.0 "
            "0000:bc:00.0 0000:be:00.0 0000:e0:00.0 0000:e2:00.0 0000:e5:00.0 "
            "0000:e7:00.0" },
    { "dgxh100", "2 56 2, 112 2 1 local", "0302 [10de:2330]",
            "0000:1b:00.0 0000:43:00.0 0000:52:00.0 0000:61:00.0 0000:9d:00.0 "
            "0000:c3:00.0 0000:d1:00.0 0000:df:00.0" },
    { "noloc", "1 4 1, 0 1 0", "0302 [10de:2335]", "0000:04:00.0" },
    { "power8gpudistances", "2 4 2, 80 8 1 local", "0302 [10de:15f9]",
            "0002:01:00.0 0003:01:00.0 000a:01:00.0 000b:01:00.0" },
    /* Accelerators of AMD, of the class that they have now; the order of the packages is not that of the buses. */
    { "instinct", "2 8 2, 8 1 16 local", "1200 [1002:74a1]",
            "0000:85:00.0 0000:a5:00.0 0000:05:00.0 0000:25:00.0" },
    /* Processors whose GPUs' memory is a node of the machine. */
    { "gh200", "2 72 1, 72 1 0 gpu-memory local", "0302 [10de:2342]",
            "0009:01:00.0 0019:01:00.0" },
    { "cpus", "2 4 2, 4 1 8", "", "" },
};

const char *machine_name(size_t i)
{
    return i < sizeof models / sizeof models[0] ? models[i].name : NULL;
}

bool machine_find(struct machine_model *model, const char *name)
{
    size_t i = 0;

    while (machine_name(i) != NULL && strcmp(models[i].name, name) != 0) {
        i++;
    }
    if (machine_name(i) == NULL) {
        return false;
    }
    *model = (struct machine_model){
        .gpu = models[i].gpu,
        .has_gpu_memory = strstr(models[i].shape, "gpu-memory") != NULL,
        .has_locality = strstr(models[i].shape, "local") != NULL,
    };
    for (const char *bus = models[i].buses; *bus != '\0';
            bus += bus[12] == ' ' ? 13 : 12) {
        (void)snprintf(
                model->buses[model->gpus++], sizeof model->buses[0], "%.12s", bus);
    }
    return sscanf(models[i].shape, "%d %d %d, %d %d %d", &model->packages,
                   &model->cores, &model->threads, &model->package_step,
                   &model->core_step, &model->thread_step) == 6;
}

static void set_add(struct set *set, int bit)
{
    set->words[bit / 32] |= 1U << (bit % 32);
}

static struct set cpus_of_core(const struct machine_model *model, int package, int core)
{
    struct set set = { .words = { 0 } };

    for (int thread = 0; thread < model->threads; thread++) {
        set_add(&set,
                package * model->package_step + core * model->core_step +
                        thread * model->thread_step);
    }
    return set;
}

/* Of one package, or of all with -1. */
static struct set cpus_of(const struct machine_model *model, int package)
{
    struct set set = { .words = { 0 } };

    for (int p = 0; p < model->packages; p++) {
        for (int core = 0; core < model->cores; core++) {
            struct set of_core = cpus_of_core(model, p, core);

            for (int i = 0; (package == -1 || package == p) && i < SET_WORDS; i++) {
                set.words[i] |= of_core.words[i];
            }
        }
    }
    return set;
}

static const char *set_text(const struct set *set, char text[SET_TEXT_MAX])
{
    size_t len = 0;
    int i = SET_WORDS - 1;

    while (i > 0 && set->words[i] == 0) {
        i--;
    }
    for (; i >= 0; i--) {
        len += (size_t)snprintf(text + len, SET_TEXT_MAX - len, "0x%08x%s",
                set->words[i], i > 0 ? "," : "");
    }
    return text;
}

/* Starts an object; indices are unique over the types by `identity`. */
static void write_object(FILE *file, const char *type, int index, int identity,
        const struct set *cpus, unsigned nodes)
{
    char text[SET_TEXT_MAX];

    (void)set_text(cpus, text);
    (void)fprintf(file,
            "<object type=\"%s\" os_index=\"%d\" gp_index=\"%d\" cpuset=\"%s\" "
            "complete_cpuset=\"%s\" nodeset=\"0x%x\" complete_nodeset=\"0x%x\"",
            type, index, identity, text, text, nodes, nodes);
}

/* Node p, and with memory of GPUs node packages + p. */
static unsigned nodes_of(const struct machine_model *model, int package)
{
    unsigned node = 1U << package;

    return model->has_gpu_memory ? node | node << model->packages : node;
}

static void write_core(
        const struct machine_model *model, int package, int core, FILE *file)
{
    int number = package * model->cores + core;
    struct set cpus = cpus_of_core(model, package, core);

    write_object(file, "Core", number, 1000 + number, &cpus, nodes_of(model, package));
    (void)fprintf(file, ">\n");
    for (int thread = 0; thread < model->threads; thread++) {
        int cpu = package * model->package_step + core * model->core_step +
                thread * model->thread_step;
        struct set one = { .words = { 0 } };

        set_add(&one, cpu);
        write_object(file, "PU", cpu, 10000 + cpu, &one, nodes_of(model, package));
        (void)fprintf(file, "/>\n");
    }
    (void)fprintf(file, "</object>\n");
}

static void write_device(FILE *file, int identity, const char *bus, const char *type)
{
    (void)fprintf(file,
            "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" "
            "bridge_pci=\"%.4s:[%.2s-%.2s]\">\n"
            "<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"%s\" "
            "pci_type=\"%s [0000:0000] a1 00\" pci_link_speed=\"63.0\"/>\n</object>\n",
            identity, bus, bus + 5, bus + 5, identity + 1, bus, type);
}

/* GPUs of a package, or of the machine with -1. */
static void write_gpus(const struct machine_model *model, int package, FILE *file)
{
    for (int i = 0; i < model->gpus; i++) {
        int at = model->has_locality ? i * model->packages / model->gpus : -1;

        if (at == package) {
            write_device(file, 20000 + 2 * i, model->buses[i], model->gpu);
        }
    }
}

static void write_package(const struct machine_model *model, int package, FILE *file)
{
    struct set cpus = cpus_of(model, package);
    unsigned nodes = nodes_of(model, package);
    char bus[32];

    write_object(file, "Package", package, 10 + package, &cpus, nodes);
    (void)fprintf(file, ">\n");
    for (int node = package; 1U << node <= nodes; node += model->packages) {
        write_object(file, "NUMANode", node, 20 + node, &cpus, 1U << node);
        (void)fprintf(file, " local_memory=\"68719476736\"/>\n");
    }
    for (int core = 0; core < model->cores; core++) {
        write_core(model, package, core, file);
    }
    write_gpus(model, package, file);
    (void)snprintf(bus, sizeof bus, "00f%d:01:00.0", package);
    write_device(file, 30000 + 2 * package, bus, "0680 [10de:22a3]");
    (void)fprintf(file, "</object>\n");
}

void machine_write(const struct machine_model *model, FILE *file)
{
    struct set cpus = cpus_of(model, -1);
    unsigned nodes = (1U << model->packages * (model->has_gpu_memory ? 2 : 1)) - 1;
    char text[SET_TEXT_MAX];

    (void)fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n");
    write_object(file, "Machine", 0, 1, &cpus, nodes);
    (void)fprintf(file, " allowed_cpuset=\"%s\" allowed_nodeset=\"0x%x\">\n",
            set_text(&cpus, text), nodes);
    for (int package = 0; package < model->packages; package++) {
        write_package(model, package, file);
    }
    write_gpus(model, -1, file);
    write_device(file, 40000, "00ff:01:03.0", "0300 [1d0f:1111]");
    (void)fprintf(file, "</object>\n</topology>\n");
}
