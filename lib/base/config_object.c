/*
 * The public object tutti_config: values, their text, and where the log goes.
 */
#include "base/config.h"
#include "base/mem.h"

static void text_refresh(tutti_config *config, size_t row)
{
    size_t count;

    /* A value is a number or a text of at most CONFIG_TEXT_MAX bytes: it fits. */
    (void)config_format(&config->values, &config_rows(&count)[row], config->text[row],
            sizeof config->text[row]);
}

tutti_status tutti_config_create(tutti_config **config)
{
    tutti_config *created;
    tutti_status status;
    size_t row;

    if (config == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_config_create: config is NULL");
    }
    created = mem_calloc(1, sizeof *created);
    if (created == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for the configuration");
    }
    status = config_init(&created->values);
    if (status != TUTTI_OK) {
        goto err_free;
    }
    status = config_from_environment(
            &created->values, created->warnings, sizeof created->warnings);
    if (status != TUTTI_OK) {
        goto err_fini;
    }
    for (row = 0; row < CONFIG_COUNT; row++) {
        text_refresh(created, row);
    }
    *config = created;
    return TUTTI_OK;

err_fini:
    config_fini(&created->values);
err_free:
    mem_free(created);
    return status;
}

void tutti_config_destroy(tutti_config *config)
{
    if (config != NULL) {
        config_fini(&config->values);
        mem_free(config);
    }
}

tutti_status tutti_config_set(tutti_config *config, const char *name, const char *value)
{
    tutti_status status;
    size_t count;

    if (config == NULL || name == NULL || value == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_config_set: %s is NULL",
                config == NULL ? "config" : (name == NULL ? "name" : "value"));
    }
    status = config_set(&config->values, name, value, "tutti_config_set");
    if (status == TUTTI_OK) {
        config_warn_ignored(&config->values, config->warnings, sizeof config->warnings);
        text_refresh(config, (size_t)(config_find(name) - config_rows(&count)));
    }
    return status;
}

tutti_status tutti_config_get(
        const tutti_config *config, const char *name, const char **text)
{
    const struct config_row *row;
    size_t count;

    if (config == NULL || name == NULL || text == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_config_get: %s is NULL",
                config == NULL ? "config" : (name == NULL ? "name" : "text"));
    }
    row = config_find(name);
    if (row == NULL) {
        return config_unknown(name, "tutti_config_get");
    }
    *text = config->text[row - config_rows(&count)];
    return TUTTI_OK;
}

tutti_status tutti_config_set_log(
        tutti_config *config, tutti_log_callback callback, void *user)
{
    if (config == NULL) {
        return error_set(TUTTI_ERR_INVALID, "tutti_config_set_log: config is NULL");
    }
    config->log = callback;
    config->log_user = user;
    return TUTTI_OK;
}
