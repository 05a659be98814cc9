/*
 * Tables made from those of flags, parameters and metrics, for pages that have a place for them. All write
 * to stdout.
 */
#ifndef TUTTI_TOOLS_PAGES_H
#define TUTTI_TOOLS_PAGES_H

/** Flags and parameters in roff. */
void pages_manual_options(void);
void pages_manual_parameters(void);
/** The flags, and what each takes, for bash. */
void pages_completion(void);
/** In Markdown: flags of tuttirun by group; horovodrun's, and the keys of its file. */
void pages_flags(void);
void pages_horovodrun(void);
void pages_keys(void);
/** In Markdown: parameters, and variables of Horovod. */
void pages_configuration(void);
void pages_variables(void);
/** In Markdown. */
void pages_metrics(void);

#endif
