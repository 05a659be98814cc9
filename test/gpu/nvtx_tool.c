/*
 * A tool for NVTX, loaded by NVTX_INJECTION64_PATH: it writes ranges to the file that NVTX_TOOL_FILE
 * names, "begin ID NAME" and "end ID".
 */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *file;
static int domain;
static uint64_t ranges;

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
    (void)fprintf(file, "begin %llu %s\n", (unsigned long long)++ranges,
            attributes->message.ascii);
    (void)fflush(file);
    return ranges;
}

static void end(nvtxDomainHandle_t where, nvtxRangeId_t range)
{
    (void)where;
    (void)fprintf(file, "end %llu\n", (unsigned long long)range);
    (void)fflush(file);
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
        NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;

    file = fopen(getenv("NVTX_TOOL_FILE"), "w");
    if (file == NULL || callbacks == NULL ||
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
