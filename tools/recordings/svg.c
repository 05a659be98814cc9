/*
 * Writes SVG.
 */
#include "tools/recordings/svg.h"

/* Narrower bars are not seen. */
#define BAR_MIN 0.5

static double x_of(const struct svg *svg, int64_t time)
{
    const double span = (double)(svg->end - svg->begin);

    return SVG_LEFT + (double)(time - svg->begin) / span * (SVG_WIDTH - SVG_LEFT - 10);
}

static void put_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            (void)fputs("&lt;", file);
            break;
        case '&':
            (void)fputs("&amp;", file);
            break;
        default:
            (void)fputc(*text, file);
        }
    }
}

void svg_begin(const struct svg *svg, int height, const char *title, const char *legend)
{
    (void)fprintf(svg->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<text x=\"8\" y=\"18\">",
            SVG_WIDTH, height);
    put_text(svg->file, title);
    (void)fprintf(svg->file, "</text>\n<text x=\"8\" y=\"38\" fill=\"#666\">");
    put_text(svg->file, legend);
    (void)fprintf(svg->file, "</text>\n");
}

void svg_name(const struct svg *svg, double y, const char *name, const char *color)
{
    (void)fprintf(svg->file, "<text x=\"8\" y=\"%.1f\" fill=\"%s\">", y + SVG_BAR + 4,
            color == NULL ? "#000" : color);
    put_text(svg->file, name);
    (void)fprintf(svg->file, "</text>\n");
}

void svg_bar(const struct svg *svg, const int64_t times[2], double y, const char *color)
{
    const int64_t begin = times[0] > svg->begin ? times[0] : svg->begin;
    const int64_t end = times[1] < svg->end ? times[1] : svg->end;
    double from;
    double width;

    if (begin > end) {
        return;
    }
    from = x_of(svg, begin);
    width = x_of(svg, end) - from;
    (void)fprintf(svg->file,
            "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n",
            from, y, width > BAR_MIN ? width : BAR_MIN, SVG_BAR, color);
}

void svg_end(const struct svg *svg)
{
    (void)fprintf(svg->file, "</svg>\n");
}
