/*
 * The report at the end of a context, where the parameter asks for one.
 */
#ifndef TUTTI_API_REPORT_H
#define TUTTI_API_REPORT_H

#include <tutti/tutti.h>

/**
 * Logs what this rank has done, on rank 0, with how long each rank has waited. Collective: a
 * rank that cannot take part, or does not, leaves out the waits. It fails nothing.
 */
void report_log(tutti *t);

#endif
