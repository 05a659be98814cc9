/*
 * Reading the digits, strictly: a line that is not 64 pixels and a label is an error
 * that names the file, the line and the field.
 */
#include "data.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/common.h"

/** The text of errno. */
static const char *reason(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the example reads in one thread */
    return strerror(errno);
}

/** Where the reader is, for error messages. */
struct reader {
    const char *path; /* file being read */
    int line; /* 1, 2, ... */
    char *error; /* receives the reason */
    size_t error_bytes; /* room in error */
};

/** Reads one number of a line and moves past it and its separator. */
static bool read_field(
        const struct reader *reader, char **text, int field, int max, int *value)
{
    char separator = field < DATA_PIXELS ? ',' : '\n';
    char *end;
    long number;

    errno = 0;
    number = strtol(*text, &end, 10);
    if (end == *text || errno != 0 || number < 0 || number > max) {
        (void)snprintf(reader->error, reader->error_bytes,
                "%s:%d: field %d is not a number from 0 to %d", reader->path,
                reader->line, field + 1, max);
        return false;
    }
    if (separator == '\n' && *end == '\r') {
        end++;
    }
    /* the last line may lack its newline */
    if (*end != separator && !(separator == '\n' && *end == '\0')) {
        (void)snprintf(reader->error, reader->error_bytes,
                "%s:%d: expected %d pixels and a label, separated by commas",
                reader->path, reader->line, DATA_PIXELS);
        return false;
    }
    *text = end + (*end != '\0' ? 1 : 0);
    *value = (int)number;
    return true;
}

/** Appends one line to the dataset. */
static bool read_image(const struct reader *reader, struct dataset *data, char *text)
{
    double *image = data->images + (size_t)data->count * DATA_PIXELS;
    int ink;

    for (int i = 0; i < DATA_PIXELS; i++) {
        if (!read_field(reader, &text, i, DATA_INK_MAX, &ink)) {
            return false;
        }
        image[i] = (double)ink / DATA_INK_MAX;
    }
    return read_field(
            reader, &text, DATA_PIXELS, DATA_CLASSES - 1, &data->labels[data->count]);
}

/** Doubles the room for images. */
static bool grow(struct dataset *data, int *capacity)
{
    int larger = *capacity == 0 ? 2048 : *capacity * 2;
    double *images =
            realloc(data->images, (size_t)larger * DATA_PIXELS * sizeof *images);
    int *labels;

    if (images == NULL) {
        return false;
    }
    data->images = images;
    labels = realloc(data->labels, (size_t)larger * sizeof *labels);
    if (labels == NULL) {
        return false;
    }
    data->labels = labels;
    *capacity = larger;
    return true;
}

static bool read_lines(struct reader *reader, struct dataset *data, FILE *file)
{
    char text[1024];
    int capacity = 0;

    while (fgets(text, sizeof text, file) != NULL) {
        reader->line++;
        if (data->count == DATA_IMAGES_MAX) {
            (void)snprintf(reader->error, reader->error_bytes,
                    "%s: more than %d images", reader->path, DATA_IMAGES_MAX);
            return false;
        }
        if (data->count == capacity && !grow(data, &capacity)) {
            (void)snprintf(reader->error, reader->error_bytes,
                    "out of memory for %d images", data->count + 1);
            return false;
        }
        if (!read_image(reader, data, text)) {
            return false;
        }
        data->count++;
    }
    if (ferror(file) != 0) {
        (void)snprintf(reader->error, reader->error_bytes, "cannot read %s: %s",
                reader->path, reason());
        return false;
    }
    return true;
}

bool dataset_load(
        struct dataset *data, const char *path, char *error, size_t error_bytes)
{
    char found[4096];
    struct reader reader = { .error = error, .error_bytes = error_bytes };
    FILE *file;
    bool complete;

    *data = (struct dataset){ .count = 0 };
    if (path == NULL) {
        if (!find_beside_program("digits.csv", found, sizeof found)) {
            (void)snprintf(error, error_bytes,
                    "digits.csv is neither beside the program nor in ../share/tutti "
                    "from there; give its path with --data");
            return false;
        }
        path = found;
    }
    reader.path = path;
    file = fopen(path, "r");
    if (file == NULL) {
        (void)snprintf(error, error_bytes, "cannot open %s: %s", path, reason());
        return false;
    }
    complete = read_lines(&reader, data, file);
    (void)fclose(file);
    if (!complete) {
        return false;
    }
    if (data->count <= DATA_HELD_OUT) {
        (void)snprintf(error, error_bytes,
                "%s has %d images; the last %d are held out, so more are needed", path,
                data->count, DATA_HELD_OUT);
        return false;
    }
    data->train = data->count - DATA_HELD_OUT;
    return true;
}

void dataset_fini(struct dataset *data)
{
    free(data->images);
    free(data->labels);
    *data = (struct dataset){ .count = 0 };
}

static double pixel_at(const double *pixels, int x, int y)
{
    bool inside = x >= 0 && x < DATA_SIDE && y >= 0 && y < DATA_SIDE;

    return inside ? pixels[y * DATA_SIDE + x] : 0.0;
}

/** Bilinear interpolation. */
static double sample(const double *pixels, double x, double y)
{
    int left = (int)floor(x);
    int top = (int)floor(y);
    double right_share = x - left;
    double bottom_share = y - top;
    double upper = (1.0 - right_share) * pixel_at(pixels, left, top) +
            right_share * pixel_at(pixels, left + 1, top);
    double lower = (1.0 - right_share) * pixel_at(pixels, left, top + 1) +
            right_share * pixel_at(pixels, left + 1, top + 1);

    return (1.0 - bottom_share) * upper + bottom_share * lower;
}

void dataset_copy_distorted(const struct dataset *data, int image,
        const struct distortion *distortion, double *out)
{
    const double *pixels = data->images + (size_t)image * DATA_PIXELS;
    const double(*m)[3] = distortion->matrix;
    double centre = (DATA_SIDE - 1) / 2.0;

    for (int i = 0; i < DATA_PIXELS; i++) {
        int row = i / DATA_SIDE;
        double x = i % DATA_SIDE - centre;
        double y = row - centre;
        double from_x = m[0][0] * x + m[0][1] * y + m[0][2] + centre;
        double from_y = m[1][0] * x + m[1][1] * y + m[1][2] + centre;

        out[i] = pow(sample(pixels, from_x, from_y), distortion->contrast);
    }
}
