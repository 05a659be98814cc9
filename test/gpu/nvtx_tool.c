/*
 * A tool for NVTX, loaded by NVTX_INJECTION64_PATH: it writes ranges, "begin NAME" and "end", to where
 * the program that is linked with it sees them.
 */
#include <nvtx3/nvToolsExt.h>
#include <string.h>

__attribute__((visibility("default"))) char nvtx_tool_text[256];
static int domain;
static uint64_t ranges;

static void say(const char *text)
{
    (void)strncat(
            nvtx_tool_text, text, sizeof nvtx_tool_text - strlen(nvtx_tool_text) - 1);
}

static nvtxDomainHandle_t create(const char *name)
{
    return strcmp(name, "tutti") == 0 ? (nvtxDomainHandle_t)(void *)&domain : NULL;
}

static nvtxRangeId_t begin(
        nvtxDomainHandle_t where, const nvtxEventAttributes_t *attributes)
{
    if (where != (nvtxDomainHandle_t)(void *)&domain) {
        return 0;
    }
    say("begin ");
    say(attributes->message.ascii);
    say("\n");
    return ++ranges;
}

static void end(nvtxDomainHandle_t where, nvtxRangeId_t range)
{
    (void)where;
    say(range == ranges ? "end\n" : "end of another\n");
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
        NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;

    if (callbacks == NULL ||
            callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ==
                    0 ||
            size <= NVTX_CBID_CORE2_DomainCreateA) {
        return 0;
    }
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *table[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)begin;
    *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)end;
    return 1;
}
