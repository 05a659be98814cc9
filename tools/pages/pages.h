/*
 * What is made from the tables of flags while tutti is built: the manual page, the
 * completion, and pages of the documentation. All write to stdout.
 */
#ifndef TUTTI_TOOLS_PAGES_H
#define TUTTI_TOOLS_PAGES_H

/** tuttirun(1) in roff. */
void pages_manual(void);
/** The tables of what bash sources to complete tuttirun; completion.bash follows. */
void pages_completion(void);
/** docs/reference/tuttirun.md. */
void pages_reference(void);
/** docs/launcher/horovodrun.md. */
void pages_horovodrun(void);
/** docs/reference/configuration.md. */
void pages_configuration(void);
/** docs/reference/metrics.md. */
void pages_metrics(void);

#endif
