/*
 * A row of the table says where its value goes, what it may be and which commands take
 * it. Checks between options come after all of them are read.
 */
#include "bench/core/arguments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/collective.h"
#include "bench/core/pattern.h"
#include "bench/core/sizes.h"
#include "bench/core/summary.h"
#include "bench/core/workloads.h"

struct choice {
    const char *name; /* NULL ends a list */
    int value;
};

enum kind {
    KIND_SIZE,
    KIND_BYTES,
    KIND_INT,
    KIND_REAL,
    KIND_CHOICE,
    KIND_CHOICES,
    KIND_TEXT,
    KIND_FLAG
};

enum {
    ON_SWEEP = (1 << BENCH_LATENCY) - 1, /* the commands before it */
    ON_LATENCY = 1 << BENCH_LATENCY,
    ON_WORKLOAD = 1 << BENCH_WORKLOAD,
    ON_IDLE = 1 << BENCH_IDLE,
    ON_OVERLAP = 1 << BENCH_OVERLAP,
    ON_STEADY = 1 << BENCH_STEADY,
    ON_SIZED = ON_SWEEP | ON_LATENCY,
    ON_TIMED = ON_SIZED | ON_WORKLOAD | ON_OVERLAP,
    ON_STEPS = ON_TIMED | ON_STEADY,
    ON_ALL = ON_STEPS | ON_IDLE
};

struct option {
    const char *name; /* without the dashes */
    const struct choice *choices; /* of a CHOICE or CHOICES */
    const char *value; /* what --help calls the value */
    const char *help;
    size_t offset; /* in struct bench_arguments */
    double min, max; /* of an INT or REAL */
    unsigned commands; /* bit per enum bench_command */
    enum kind kind; /* how the value is read */
    char letter; /* nccl-tests'; 0: none */
};

static const char *const command_names[BENCH_COMMAND_COUNT] = {
    [BENCH_ALLREDUCE] = "allreduce",
    [BENCH_BROADCAST] = "broadcast",
    [BENCH_REDUCE] = "reduce",
    [BENCH_REDUCESCATTER] = "reducescatter",
    [BENCH_ALLGATHER] = "allgather",
    [BENCH_ALLTOALL] = "alltoall",
    [BENCH_GATHER] = "gather",
    [BENCH_SCATTER] = "scatter",
    [BENCH_LATENCY] = "latency",
    [BENCH_WORKLOAD] = "workload",
    [BENCH_IDLE] = "idle",
    [BENCH_OVERLAP] = "overlap",
    [BENCH_STEADY] = "steady",
};

static const struct choice dtype_choices[] = {
#define DTYPE_CHOICE(symbol, number, name, bytes) { (name), (number) },
    TUTTI_DTYPE_MAP(DTYPE_CHOICE)
#undef DTYPE_CHOICE
            { "half", TUTTI_FLOAT16 },
    { "float", TUTTI_FLOAT32 },
    { "double", TUTTI_FLOAT64 },
    { NULL, 0 },
};

static const struct choice op_choices[] = {
#define OP_CHOICE(symbol, number, name) { (name), (number) },
    TUTTI_REDUCE_MAP(OP_CHOICE)
#undef OP_CHOICE
            { "avg", TUTTI_AVERAGE },
    { "prod", TUTTI_PRODUCT },
    { NULL, 0 },
};

/* The first BENCH_LATENCY of them are the sweeps, in the order of their commands. */
static const struct choice collective_choices[] = {
    { "allreduce", TUTTI_ALLREDUCE },
    { "broadcast", TUTTI_BROADCAST },
    { "reduce", TUTTI_REDUCE },
    { "reducescatter", TUTTI_REDUCESCATTER },
    { "allgather", TUTTI_ALLGATHER },
    { "alltoall", TUTTI_ALLTOALL },
    { "gather", TUTTI_GATHER },
    { "scatter", TUTTI_SCATTER },
    { NULL, 0 },
};

static const struct choice compare_choices[] = {
    { "mpi", BENCH_WITH_MPI },
    { "mpi-tuned", BENCH_WITH_MPI_TUNED },
    { "limit", BENCH_WITH_LIMIT },
    { "slow", BENCH_WITH_SLOW },
    { "exchange", BENCH_WITH_EXCHANGE },
    { "wait", BENCH_WITH_WAIT },
    { "copy", BENCH_WITH_COPY },
    { "cma", BENCH_WITH_CMA },
    { "contiguous", BENCH_WITH_CONTIGUOUS },
    { NULL, 0 },
};

static const struct choice memory_choices[] = {
    { "private", BENCH_PRIVATE },
    { "arena", BENCH_ARENA },
    { "share", BENCH_SHARE },
    { NULL, 0 },
};

static const struct choice complete_choices[] = {
    { "wait", BENCH_BY_WAIT },
    { "callback", BENCH_BY_CALLBACK },
    { "test", BENCH_BY_TEST },
    { NULL, 0 },
};

static const struct choice columns_choices[] = {
    { "nccl", BENCH_NCCL },
    { "osu", BENCH_OSU },
    { NULL, 0 },
};

static const struct choice compute_choices[] = {
    { "device", BENCH_DEVICE },
    { "cpu", BENCH_CPU },
    { NULL, 0 },
};

static const struct option options[] = {
#define ROW(kind_of, char_of, name_of, commands_of, help_of, ...) \
    { .kind = (kind_of), \
        .letter = (char_of), \
        .name = (name_of), \
        .commands = (commands_of), \
        .help = (help_of), \
        __VA_ARGS__ },
#define AT(field) .offset = offsetof(struct bench_arguments, field)
#define SIZE(letter, name, field, commands, value_name, help) \
    ROW(KIND_SIZE, letter, name, commands, help, AT(field), .value = (value_name))
#define BYTES(letter, name, commands, value_name, help) \
    ROW(KIND_BYTES, letter, name, commands, help, .value = (value_name))
#define INT(letter, name, field, low, high, commands, value_name, help) \
    ROW(KIND_INT, letter, name, commands, help, AT(field), .value = (value_name), \
            .min = (low), .max = (high))
#define REAL(letter, name, field, low, high, commands, value_name, help) \
    ROW(KIND_REAL, letter, name, commands, help, AT(field), .value = (value_name), \
            .min = (low), .max = (high))
#define CHOICE(letter, name, field, list, commands, value_name, help) \
    ROW(KIND_CHOICE, letter, name, commands, help, AT(field), .value = (value_name), \
            .choices = (list))
#define CHOICES(letter, name, field, list, commands, value_name, help) \
    ROW(KIND_CHOICES, letter, name, commands, help, AT(field), .value = (value_name), \
            .choices = (list))
#define TEXT(letter, name, field, commands, value_name, help) \
    ROW(KIND_TEXT, letter, name, commands, help, AT(field), .value = (value_name))
#define FLAG(letter, name, field, commands, help) \
    ROW(KIND_FLAG, letter, name, commands, help, AT(field))
#include "bench/core/arguments.def"
#undef FLAG
#undef TEXT
#undef CHOICES
#undef CHOICE
#undef REAL
#undef INT
#undef BYTES
#undef SIZE
#undef AT
#undef ROW
};

enum {
    OPTION_COUNT = sizeof options / sizeof options[0]
};

/* Writes the error; returns false for its caller to return. */
__attribute__((format(printf, 2, 3))) static bool complain(
        struct bench_arguments *arguments, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    (void)vsnprintf(arguments->error, sizeof arguments->error, format, values);
    va_end(values);
    return false;
}

static const char *choice_name(const struct choice *choices, int value)
{
    for (; choices->name != NULL; choices++) {
        if (choices->value == value) {
            return choices->name;
        }
    }
    return NULL;
}

const char *bench_command_name(enum bench_command command)
{
    return command_names[command];
}

void bench_compare_text(int compare, char text[BENCH_COMPARE_TEXT_MAX])
{
    size_t used = 0;

    text[0] = '\0';
    for (const struct choice *c = compare_choices; c->name != NULL; c++) {
        if ((compare & c->value) != 0) {
            used += (size_t)snprintf(text + used, BENCH_COMPARE_TEXT_MAX - used, "%s%s",
                    used == 0 ? "" : ",", c->name);
        }
    }
}

const char *bench_memory_name(enum bench_memory memory)
{
    return choice_name(memory_choices, (int)memory);
}

const char *bench_complete_name(enum bench_complete complete)
{
    return choice_name(complete_choices, (int)complete);
}

const char *bench_dtype_name(tutti_dtype dtype)
{
    return choice_name(dtype_choices, (int)dtype);
}

const char *bench_collective_name(tutti_collective collective)
{
    return choice_name(collective_choices, (int)collective);
}

const char *bench_redop_name(tutti_collective collective, tutti_reduce_op op)
{
    return bench_reduces(collective) ? choice_name(op_choices, (int)op) : "none";
}

/* "a, b or c" would need to know the last: "a, b, c". Longer lists are cut. */
static void list_choices(const struct choice *choices, char *text, size_t capacity)
{
    size_t used = 0;

    text[0] = '\0';
    for (; choices->name != NULL && used < capacity; choices++) {
        int length = snprintf(text + used, capacity - used, "%s%s",
                used == 0 ? "" : ", ", choices->name);

        used += length < 0 ? capacity : (size_t)length;
    }
}

static void *field_of(struct bench_arguments *arguments, const struct option *option)
{
    return (char *)arguments + option->offset;
}

/* The choice of this name and length; NULL, and complains, when there is none. */
static const struct choice *find_choice(struct bench_arguments *arguments,
        const struct option *option, const char *name, size_t length)
{
    char list[256];

    for (const struct choice *c = option->choices; c->name != NULL; c++) {
        if (strlen(c->name) == length && strncmp(c->name, name, length) == 0) {
            return c;
        }
    }
    list_choices(option->choices, list, sizeof list);
    (void)complain(arguments, "--%s: '%.*s' is not one of %s", option->name,
            (int)length, name, list);
    return NULL;
}

static bool store_choice(struct bench_arguments *arguments, const struct option *option,
        const char *text)
{
    const struct choice *choice = find_choice(arguments, option, text, strlen(text));

    if (choice != NULL) {
        *(int *)field_of(arguments, option) = choice->value;
    }
    return choice != NULL;
}

static bool store_choices(struct bench_arguments *arguments,
        const struct option *option, const char *text)
{
    int values = 0;

    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        const struct choice *choice = find_choice(arguments, option, at, length);

        if (choice == NULL) {
            return false;
        }
        values |= choice->value;
        at += length;
        if (*at == '\0') {
            break;
        }
    }
    *(int *)field_of(arguments, option) = values;
    return true;
}

static bool store_number(struct bench_arguments *arguments, const struct option *option,
        const char *text)
{
    char *end = NULL;
    double real;
    long whole = 0;

    errno = 0;
    if (option->kind == KIND_INT) {
        whole = strtol(text, &end, 10);
        real = (double)whole;
    } else {
        real = strtod(text, &end);
    }
    if (end == text || *end != '\0' || errno != 0) {
        return complain(arguments, "--%s: '%s' is not a number", option->name, text);
    }
    /* written so that NaN is refused too */
    if (!(real >= option->min && real <= option->max)) {
        return complain(arguments, "--%s: %s is outside %.10g..%.10g", option->name,
                text, option->min, option->max);
    }
    if (option->kind == KIND_INT) {
        *(int *)field_of(arguments, option) = (int)whole;
    } else {
        *(double *)field_of(arguments, option) = real;
    }
    return true;
}

static bool store_size(struct bench_arguments *arguments, const struct option *option,
        const char *text)
{
    uint64_t bytes;

    if (!bench_size_parse(text, &bytes)) {
        return complain(arguments,
                "--%s: '%s' is not a size: digits, then perhaps k, m or g",
                option->name, text);
    }
    if (option->kind == KIND_BYTES) {
        arguments->min_bytes = bytes;
        arguments->max_bytes = bytes;
    } else {
        *(uint64_t *)field_of(arguments, option) = bytes;
    }
    return true;
}

static bool store(struct bench_arguments *arguments, const struct option *option,
        const char *text)
{
    switch (option->kind) {
    case KIND_SIZE:
    case KIND_BYTES:
        return store_size(arguments, option, text);
    case KIND_INT:
    case KIND_REAL:
        return store_number(arguments, option, text);
    case KIND_CHOICE:
        return store_choice(arguments, option, text);
    case KIND_CHOICES:
        return store_choices(arguments, option, text);
    case KIND_TEXT:
        *(const char **)field_of(arguments, option) = text;
        return true;
    case KIND_FLAG:
        *(bool *)field_of(arguments, option) = true;
        return true;
    }
    return false;
}

static const struct option *find_letter(char letter)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (options[i].letter != '\0' && options[i].letter == letter) {
            return &options[i];
        }
    }
    return NULL;
}

static const struct option *find_name(const char *name, size_t length)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strlen(options[i].name) == length &&
                strncmp(options[i].name, name, length) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

/* The option that an argument names; *value is set when it is in the same argument. */
static const struct option *find_option(const char *argument, const char **value)
{
    const char *equals = strchr(argument, '=');
    const char *name = argument + 2;

    if (argument[1] != '-') {
        *value = argument[2] == '\0' ? NULL : argument + 2;
        return find_letter(argument[1]);
    }
    *value = equals == NULL ? NULL : equals + 1;
    return find_name(name, equals == NULL ? strlen(name) : (size_t)(equals - name));
}

/* The arguments that are left to read. */
struct cursor {
    char **at;
    char **end;
};

static bool parse_option(struct bench_arguments *arguments, struct cursor *cursor)
{
    const char *argument = *cursor->at++;
    const char *command = bench_command_name((enum bench_command)arguments->command);
    const char *value;
    const struct option *option = find_option(argument, &value);

    if (option == NULL) {
        return complain(arguments, "unknown option '%s'; see --help", argument);
    }
    if ((option->commands & 1U << arguments->command) == 0) {
        return complain(arguments, "'%s' is not an option of %s; see --help", argument,
                command);
    }
    if (option->kind == KIND_FLAG && value != NULL) {
        return complain(arguments, "'%s': --%s takes no value", argument, option->name);
    }
    if (option->kind != KIND_FLAG && value == NULL) {
        if (cursor->at == cursor->end) {
            return complain(arguments, "'%s' needs a value", argument);
        }
        value = *cursor->at++;
    }
    return store(arguments, option, value);
}

static bool parse_command(struct bench_arguments *arguments, struct cursor *cursor)
{
    if (cursor->at == cursor->end) {
        return complain(arguments,
                "no command given: a collective, latency, workload, idle, overlap or "
                "steady; see --help");
    }
    for (int i = 0; i < BENCH_COMMAND_COUNT; i++) {
        if (strcmp(command_names[i], *cursor->at) == 0) {
            arguments->command = i;
            cursor->at++;
            return true;
        }
    }
    return complain(arguments,
            "unknown command '%s': a collective, latency, workload, idle, overlap or "
            "steady; see --help",
            *cursor->at);
}

static bool is_trainer(const char *name)
{
    return strcmp(name, "trainer") == 0;
}

/* What the program of a workload has that others have not. */
static bool check_program(struct bench_arguments *arguments)
{
    const char *name = arguments->name;

    if (!is_trainer(name) &&
            (arguments->gradients != NULL || arguments->backward_ms > 0)) {
        return complain(arguments, "--%s: workload %s has none, only trainer does",
                arguments->gradients != NULL ? "workload" : "backward-ms", name);
    }
    if (is_trainer(name) &&
            (arguments->collective != TUTTI_ALLREDUCE ||
                    (arguments->compare & ~(BENCH_WITH_SLOW | BENCH_WITH_WAIT)) != 0)) {
        return complain(arguments,
                "workload %s: it is made of allreduces and compared with slow only, or "
                "with wait",
                name);
    }
    return true;
}

static bool check_name(struct bench_arguments *arguments)
{
    const char *name = arguments->name;

    if (arguments->list && (name == NULL || bench_workload_exists(name))) {
        return true;
    }
    if (name == NULL) {
        return complain(arguments,
                "workload needs a name: one of workload --list, all or trainer");
    }
    if (strcmp(name, "all") != 0 && !bench_workload_exists(name) && !is_trainer(name)) {
        return complain(arguments,
                "unknown workload '%s': one of workload --list, all or trainer", name);
    }
    return check_program(arguments);
}

static bool check_gradients(struct bench_arguments *arguments)
{
    if (arguments->gradients != NULL && !bench_workload_exists(arguments->gradients)) {
        return complain(arguments,
                "--workload: unknown workload '%s'; workload --list names them",
                arguments->gradients);
    }
    return true;
}

/* The largest size of a tensor: products with counts and factors stay below 2^64. */
#define SIZE_LIMIT (UINT64_C(1) << 48)

static bool check_sizes(struct bench_arguments *arguments)
{
    size_t element = bench_dtype_bytes((tutti_dtype)arguments->dtype);

    if (arguments->max_bytes < arguments->min_bytes) {
        return complain(arguments,
                "--max-bytes %" PRIu64 " is below --min-bytes %" PRIu64,
                arguments->max_bytes, arguments->min_bytes);
    }
    if (arguments->max_bytes > SIZE_LIMIT) {
        return complain(arguments, "--max-bytes %" PRIu64 " is above 2^48",
                arguments->max_bytes);
    }
    if (arguments->min_bytes < element) {
        return complain(arguments, "%" PRIu64 " bytes hold no %s", arguments->min_bytes,
                bench_dtype_name((tutti_dtype)arguments->dtype));
    }
    return true;
}

/* What raw MPI can do. */
static bool check_mpi(struct bench_arguments *arguments)
{
    tutti_collective collective = (tutti_collective)arguments->collective;

    if ((arguments->compare & BENCH_WITH_ANY_MPI) == BENCH_WITH_ANY_MPI) {
        return complain(arguments,
                "--compare: mpi and mpi-tuned are of two jobs, because MPI's settings "
                "hold for a whole process");
    }
    if (collective == TUTTI_REDUCE && arguments->root != 0) {
        return complain(arguments,
                "--compare: --root %d: a reduce is compared with root 0 only, because "
                "MPICH 4.0 crashes when it reduces in place to another",
                arguments->root);
    }
    if (bench_reduces(collective) &&
            (arguments->op == TUTTI_AVERAGE || arguments->dtype == TUTTI_FLOAT16 ||
                    arguments->dtype == TUTTI_BFLOAT16)) {
        return complain(arguments, "--compare: MPI has no %s of %s",
                bench_redop_name(collective, (tutti_reduce_op)arguments->op),
                bench_dtype_name((tutti_dtype)arguments->dtype));
    }
    return true;
}

static bool check_compare(struct bench_arguments *arguments)
{
    if (arguments->compare == 0) {
        return true;
    }
    if ((arguments->compare & BENCH_WITH_WAIT) != 0 &&
            arguments->complete == BENCH_BY_WAIT) {
        return complain(arguments,
                "--compare: wait is for --complete callback or test; otherwise tutti "
                "waits anyway");
    }
    if (arguments->command == BENCH_OVERLAP &&
            (arguments->compare & ~BENCH_WITH_SLOW) != 0) {
        return complain(arguments,
                "--compare: overlap is compared with slow only: MPI's calls block");
    }
    if ((arguments->compare & BENCH_WITH_SLOW) != 0 && arguments->slow == NULL) {
        return complain(arguments,
                "--compare: slow is tutti with another parameter: add --slow "
                "PARAMETER=VALUE");
    }
    if (arguments->rounds < 5) {
        return complain(arguments, "--compare needs --rounds of at least 5, not %d",
                arguments->rounds);
    }
    if ((arguments->compare & BENCH_WITH_PRIVATE_SUM) != 0 &&
            (arguments->command != BENCH_LATENCY ||
                    arguments->collective != TUTTI_ALLREDUCE)) {
        return complain(arguments,
                "--compare: copy and cma are ways to do one allreduce, of latency");
    }
    if ((arguments->compare & (BENCH_WITH_LIMIT | BENCH_WITH_EXCHANGE)) != 0 &&
            arguments->collective != TUTTI_ALLREDUCE) {
        return complain(arguments,
                "--compare: the %s is that of an allreduce, not of %s; leave it out",
                (arguments->compare & BENCH_WITH_LIMIT) != 0 ? "limit" : "exchange",
                bench_collective_name((tutti_collective)arguments->collective));
    }
    if ((arguments->compare & BENCH_WITH_EXCHANGE) != 0 &&
            arguments->command != BENCH_WORKLOAD &&
            arguments->command != BENCH_LATENCY) {
        return complain(arguments,
                "--compare: the exchange is that of workload or latency, not of %s; "
                "leave it out",
                bench_command_name((enum bench_command)arguments->command));
    }
    return (arguments->compare & BENCH_WITH_ANY_MPI) == 0 || check_mpi(arguments);
}

static bool check_operation(struct bench_arguments *arguments)
{
    struct bench_operation operation = {
        .collective = (tutti_collective)arguments->collective,
        .dtype = (tutti_dtype)arguments->dtype,
        .op = (tutti_reduce_op)arguments->op,
    };
    const char *dtype = bench_dtype_name(operation.dtype);

    if (!bench_operation_is_valid(&operation)) {
        return complain(arguments, "%s of %s does not exist",
                bench_redop_name(operation.collective, operation.op), dtype);
    }
    return check_compare(arguments);
}

/* Not a size that can be asked for. */
#define DEFAULT_SIZE UINT64_MAX

/*
 * Latency is that of 4 bytes, or of one element where that is more. Where only one end
 * is given, the other gives way.
 */
static void set_default_sizes(struct bench_arguments *arguments)
{
    size_t element = bench_dtype_bytes((tutti_dtype)arguments->dtype);
    uint64_t first = 8;
    uint64_t last = UINT64_C(32) << 20;

    if (arguments->command == BENCH_LATENCY) {
        first = element > 4 ? element : 4;
        last = first;
    }
    if (arguments->min_bytes == DEFAULT_SIZE) {
        arguments->min_bytes =
                first < arguments->max_bytes ? first : arguments->max_bytes;
    }
    if (arguments->max_bytes == DEFAULT_SIZE) {
        arguments->max_bytes =
                last > arguments->min_bytes ? last : arguments->min_bytes;
    }
}

/* Of options which say, when they are given, that something else was meant. */
static void set_default_program(struct bench_arguments *arguments)
{
    if (arguments->gradients == NULL) {
        arguments->gradients =
                arguments->command == BENCH_STEADY ? "small1000" : "resnet50";
    }
    if (arguments->backward_ms <= 0) {
        arguments->backward_ms = arguments->command == BENCH_OVERLAP ? 100 : 20;
    }
}

/* Defaults that depend on the command, and checks between options. */
static bool finish(struct bench_arguments *arguments)
{
    set_default_sizes(arguments);
    if (arguments->command == BENCH_WORKLOAD && !check_name(arguments)) {
        return false;
    }
    if (!check_gradients(arguments) ||
            ((1 << arguments->command & ON_SIZED) != 0 && !check_sizes(arguments))) {
        return false;
    }
    set_default_program(arguments);
    if (arguments->factor != 0 && arguments->step_bytes != 0) {
        return complain(arguments, "--factor and --step exclude each other");
    }
    if (arguments->factor == 0) {
        arguments->factor = 2;
    }
    return check_operation(arguments);
}

static void set_defaults(struct bench_arguments *arguments)
{
    arguments->min_bytes = DEFAULT_SIZE;
    arguments->max_bytes = DEFAULT_SIZE;
    arguments->warmup = -1;
    arguments->aggregate = 1;
    arguments->checks = 1;
    arguments->rounds = BENCH_INTERVAL_SAMPLES;
    arguments->collective = arguments->command < BENCH_LATENCY
            ? collective_choices[arguments->command].value
            : TUTTI_ALLREDUCE;
    arguments->dtype = TUTTI_FLOAT32;
    arguments->op = TUTTI_SUM;
    arguments->average = BENCH_MAX;
    arguments->seconds = 10;
}

/* --help and --version anywhere win over everything else. */
static bool wants_text(struct bench_arguments *arguments, const struct cursor *cursor)
{
    for (char **at = cursor->at; at < cursor->end; at++) {
        arguments->help |= strcmp(*at, "--help") == 0 || strcmp(*at, "-h") == 0;
        arguments->version |= strcmp(*at, "--version") == 0 || strcmp(*at, "-V") == 0;
    }
    return arguments->help || arguments->version;
}

/* Options and, for workload, its name. */
static bool parse_argument(struct bench_arguments *arguments, struct cursor *cursor)
{
    const char *argument = *cursor->at;

    if (argument[0] == '-' && argument[1] != '\0') {
        return parse_option(arguments, cursor);
    }
    if (arguments->command == BENCH_WORKLOAD && arguments->name == NULL) {
        arguments->name = argument;
        cursor->at++;
        return true;
    }
    return complain(arguments, "unexpected argument '%s'; see --help", argument);
}

bool bench_arguments_parse(struct bench_arguments *arguments, int argc, char **argv)
{
    struct cursor cursor = { .at = argv + 1, .end = argv + argc };

    *arguments = (struct bench_arguments){ .command = BENCH_ALLREDUCE };
    if (wants_text(arguments, &cursor)) {
        return true;
    }
    if (!parse_command(arguments, &cursor)) {
        return false;
    }
    set_defaults(arguments);
    while (cursor.at < cursor.end) {
        if (!parse_argument(arguments, &cursor)) {
            return false;
        }
    }
    return finish(arguments);
}

static void print_option(FILE *out, const struct option *option)
{
    char left[48];
    char list[256];
    char letter[5] = "    ";

    if (option->letter != '\0') {
        (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
    }
    (void)snprintf(left, sizeof left, "%s--%s%s%s", letter, option->name,
            option->value == NULL ? "" : " ",
            option->value == NULL ? "" : option->value);
    (void)fprintf(out, "  %-25s %s\n", left, option->help);
    if (option->choices != NULL) {
        list_choices(option->choices, list, sizeof list);
        (void)fprintf(out, "  %-25s   %s\n", "", list);
    }
}

/* The options that exactly these commands take. */
static void print_options(FILE *out, unsigned commands)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (options[i].commands == commands) {
            print_option(out, &options[i]);
        }
    }
}

void bench_arguments_help(FILE *out)
{
    static const struct {
        unsigned commands;
        const char *title;
    } groups[] = {
        { ON_ALL, "All commands" },
        { ON_STEPS, "All but idle" },
        { ON_TIMED, "All but idle and steady" },
        { ON_SIZED, "Sweeps, latency" },
        { ON_SWEEP, "Sweeps" },
        { ON_LATENCY | ON_WORKLOAD, "latency, workload" },
        { ON_IDLE, "idle" },
        { ON_WORKLOAD | ON_OVERLAP | ON_STEADY, "workload trainer, overlap, steady" },
        { ON_WORKLOAD | ON_OVERLAP, "workload trainer, overlap" },
        { ON_WORKLOAD, "workload" },
        { ON_OVERLAP, "overlap" },
    };

    (void)fputs(
            "usage: tutti-bench COMMAND [options]\n"
            "\n"
            "Measures tutti over the ranks of this job; start it with tuttirun or "
            "mpirun.\n"
            "\n"
            "  allreduce       a sweep over sizes, in the columns of nccl-tests or "
            "OSU's\n"
            "  broadcast, reduce, reducescatter, allgather, alltoall, gather, scatter\n"
            "                  the same sweep for each\n"
            "  latency         one operation at a time, from submission to completion\n"
            "  workload NAME   all gradients of a network, submitted in reverse "
            "order; or all\n"
            "  workload trainer\n"
            "                  a training loop: layers, losses, metrics, evaluation, "
            "stragglers\n"
            "  idle            processor time and context switches while nothing is "
            "asked\n"
            "  overlap         communication during a backward pass, layer by layer\n"
            "  steady          allocations, page faults and context switches of a "
            "step\n"
            "\n"
            "Exit status: 0; 1 when a value is wrong or an operation failed; 2 for "
            "bad\n"
            "arguments.\n",
            out);
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        (void)fprintf(out, "\n%s:\n", groups[g].title);
        print_options(out, groups[g].commands);
    }
}
