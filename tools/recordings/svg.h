/*
 * Bars over time, as SVG.
 */
#ifndef TUTTI_TOOLS_RECORDINGS_SVG_H
#define TUTTI_TOOLS_RECORDINGS_SVG_H

#include <stdint.h>
#include <stdio.h>

enum {
    SVG_WIDTH = 1200,
    SVG_LEFT = 130, /* of the rows: names of ranks */
    SVG_TOP = 60,
    SVG_BAR = 10 /* height */
};

/** What is drawn: a time, from left to right. */
struct svg {
    FILE *file;
    int64_t begin, end;
};

/** Begins a drawing with a title and a line that explains it. */
void svg_begin(
        const struct svg *svg, int height, const char *title, const char *legend);
/** The name of a row; color NULL: black. */
void svg_name(const struct svg *svg, double y, const char *name, const char *color);
/** From one time to another; what is outside the drawing is cut off. */
void svg_bar(
        const struct svg *svg, const int64_t times[2], double y, const char *color);
void svg_end(const struct svg *svg);

#endif
