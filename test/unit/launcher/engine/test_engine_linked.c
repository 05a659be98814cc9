/*
 * Which MPI a program needs: names, damaged files, and libraries of libraries.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/engine/elf.h"
#include "launcher/engine/linked.h"
#include "test/unit/unit.h"

static char *const no_variables[] = { NULL };

/* A program of one segment, with the strings and the dynamic section behind each other. */
struct image {
    Elf64_Ehdr header;
    Elf64_Phdr segments[2];
    Elf64_Dyn dynamic[6];
    char strings[64];
};

/* Needs a library and looks for it in a folder; "" leaves either out. */
static struct image make_image(const char *library, const char *folder)
{
    const size_t strings = offsetof(struct image, strings);
    const size_t dynamic = offsetof(struct image, dynamic);
    const uint64_t base = 0x1000; /* addresses differ from places in the file */
    struct image image = {
        .header = { .e_phoff = offsetof(struct image, segments),
                .e_phentsize = sizeof(Elf64_Phdr),
                .e_phnum = 2 },
        .segments = { { .p_type = PT_LOAD, .p_vaddr = base, .p_filesz = sizeof image },
                { .p_type = PT_DYNAMIC,
                        .p_offset = dynamic,
                        .p_filesz = sizeof image.dynamic } },
        .dynamic = { { .d_tag = DT_STRTAB, .d_un = { .d_ptr = base + strings } },
                { .d_tag = DT_STRSZ, .d_un = { .d_val = sizeof image.strings } },
                { .d_tag = library[0] == '\0' ? DT_DEBUG : DT_NEEDED,
                        .d_un = { .d_val = 1 } },
                { .d_tag = folder[0] == '\0' ? DT_DEBUG : DT_RUNPATH,
                        .d_un = { .d_val = 33 } },
                { .d_tag = DT_NULL } },
    };
    const uint16_t one = 1;
    uint8_t low;

    memcpy(&low, &one, 1);
    memcpy(image.header.e_ident, ELFMAG, SELFMAG);
    image.header.e_ident[EI_CLASS] = ELFCLASS64;
    image.header.e_ident[EI_DATA] = low == 1 ? ELFDATA2LSB : ELFDATA2MSB;
    (void)snprintf(image.strings + 1, 32, "%s", library);
    (void)snprintf(image.strings + 33, 31, "%s", folder);
    return image;
}

static void test_names_tell_whose_mpi_it_is(void **state)
{
    static const struct {
        const char *library;
        enum engine_kind kind;
    } rows[] = {
        { "libmpi.so.40", ENGINE_OPENMPI },
        { "libmpi.so.40.30.4", ENGINE_OPENMPI },
        { "libmpi_ibm.so.3", ENGINE_OPENMPI },
        { "libmpich.so.12", ENGINE_MPICH },
        { "libmpi.so.12", ENGINE_MPICH },
        { "libmpi_gnu_91.so.12", ENGINE_MPICH },
        { "libmpi_abi.so.0", ENGINE_AUTO },
        { "libmpi_cxx.so.40", ENGINE_AUTO },
        { "libmpifort.so", ENGINE_AUTO },
        { "libc.so.6", ENGINE_AUTO },
        { "", ENGINE_AUTO },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(linked_kind_of(rows[i].library), rows[i].kind);
    }
}

static void test_what_a_program_needs_is_read(void **state)
{
    const struct image image = make_image("libmpi.so.40", "$ORIGIN/../lib:/opt::/x");
    struct elf_needs needs = { .libraries = { .items = NULL } };

    (void)state;
    assert_true(elf_read(&image, sizeof image, &needs));
    assert_int_equal(needs.libraries.count, 1);
    assert_string_equal(needs.libraries.items[0], "libmpi.so.40");
    assert_int_equal(needs.folders.count, 3);
    assert_string_equal(needs.folders.items[0], "$ORIGIN/../lib");
    assert_string_equal(needs.folders.items[1], "/opt");
    assert_string_equal(needs.folders.items[2], "/x");
    elf_needs_fini(&needs);
}

/* Every length, and every byte changed: wrong answers are allowed, wrong reads are not. */
static void test_damaged_files_are_survived(void **state)
{
    const struct image image = make_image("libmpi.so.40", "/opt");

    (void)state;
    for (size_t len = 0; len < sizeof image; len++) {
        struct elf_needs needs = { .libraries = { .items = NULL } };
        char *part = malloc(len == 0 ? 1 : len);

        assert_non_null(part);
        memcpy(part, &image, len);
        assert_false(elf_read(part, len, &needs));
        elf_needs_fini(&needs);
        free(part);
    }
    for (size_t i = 0; i < sizeof image * 8; i++) {
        struct elf_needs needs = { .libraries = { .items = NULL } };
        struct image *damaged = malloc(sizeof *damaged);
        unsigned char *bytes = (unsigned char *)damaged;

        assert_non_null(damaged);
        *damaged = image;
        bytes[i / 8] = (unsigned char)(bytes[i / 8] ^ (1U << (i % 8)));
        (void)elf_read(damaged, sizeof *damaged, &needs);
        elf_needs_fini(&needs);
        free(damaged);
    }
}

static void write_image(const char *path, const struct image *image)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(image, sizeof *image, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static void test_libraries_of_libraries_are_followed(void **state)
{
    const struct image program = make_image("libmine.so", "$ORIGIN");
    const struct image mine = make_image("libmpich.so.12", "");
    char folder[] = "/tmp/tutti-linked-XXXXXX";
    char program_path[64];
    char mine_path[64];
    char elsewhere[64];
    char library_path[128];
    char *const variables[] = { library_path, NULL };
    struct linked linked;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(program_path, sizeof program_path, "%s/program", folder);
    (void)snprintf(mine_path, sizeof mine_path, "%s/libmine.so", folder);
    (void)snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
    (void)snprintf(
            library_path, sizeof library_path, "LD_LIBRARY_PATH=/no::%s", folder);
    write_image(program_path, &program);
    linked_read(program_path, no_variables, &linked);
    assert_int_equal(linked.kind, ENGINE_AUTO);
    write_image(mine_path, &mine);
    linked_read(program_path, no_variables, &linked);
    assert_int_equal(linked.kind, ENGINE_MPICH);
    assert_string_equal(linked.library, "libmpich.so.12");

    const struct image bare = make_image("libmine.so", "");

    write_image(elsewhere, &bare);
    linked_read(elsewhere, no_variables, &linked);
    assert_int_equal(linked.kind, ENGINE_AUTO);
    linked_read(elsewhere, variables, &linked);
    assert_int_equal(linked.kind, ENGINE_MPICH);
    (void)unlink(program_path);
    (void)unlink(mine_path);
    (void)unlink(elsewhere);
    assert_int_equal(rmdir(folder), 0);
}

static void test_what_is_no_program_needs_nothing(void **state)
{
    struct linked linked;

    (void)state;
    linked_read("/nowhere", no_variables, &linked);
    assert_int_equal(linked.kind, ENGINE_AUTO);
    linked_read("/tmp", no_variables, &linked);
    assert_int_equal(linked.kind, ENGINE_AUTO);
    linked_read("/dev/null", no_variables, &linked);
    assert_int_equal(linked.kind, ENGINE_AUTO);
    linked_read("/etc/passwd", no_variables, &linked);
    assert_int_equal(linked.kind, ENGINE_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_tell_whose_mpi_it_is),
        cmocka_unit_test(test_what_a_program_needs_is_read),
        cmocka_unit_test(test_damaged_files_are_survived),
        cmocka_unit_test(test_libraries_of_libraries_are_followed),
        cmocka_unit_test(test_what_is_no_program_needs_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
