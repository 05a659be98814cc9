/*
 * The handwritten digits: 8x8 images with a label each, from a CSV file.
 */
#ifndef DIGITS_DATA_H
#define DIGITS_DATA_H

#include <stdbool.h>
#include <stddef.h>

enum {
    DATA_SIDE = 8, /* pixels along one edge */
    DATA_PIXELS = DATA_SIDE * DATA_SIDE, /* pixels of an image */
    DATA_INK_MAX = 16, /* darkest pixel in the file */
    DATA_CLASSES = 10, /* labels are 0 to 9 */
    DATA_HELD_OUT = 297, /* the last images are for evaluation only */
    DATA_IMAGES_MAX = 100000 /* a larger file is refused */
};

/** Images and labels; the last DATA_HELD_OUT of them are never trained on. */
struct dataset {
    int count; /* images in the file */
    int train; /* of these, how many are for training */
    double *images; /* [count * DATA_PIXELS], 0 to 1, row by row; owned */
    int *labels; /* [count]; owned */
};

/**
 * Reads a file of lines "p0,...,p63,label".
 * @param path        NULL: digits.csv beside the program or in ../share/tutti
 * @param[out] data   released with dataset_fini(), also after a failure
 * @param[out] error  the reason in words when false is returned
 */
bool dataset_load(
        struct dataset *data, const char *path, char *error, size_t error_bytes);

/** Releases a dataset; a zeroed one is allowed. */
void dataset_fini(struct dataset *data);

/** How to distort an image: (x, y) of the result is taken from `matrix` (x, y, 1). */
struct distortion {
    double matrix[2][3]; /* coordinates in pixels from the centre of the image */
    double contrast; /* power the ink is raised to; below 1 is darker */
};

/** Copies an image distorted; what comes from outside is white. */
void dataset_copy_distorted(const struct dataset *data, int image,
        const struct distortion *distortion, double *out);

#endif
