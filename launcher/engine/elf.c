/*
 * The dynamic section of ELF. The file may be anything, so every offset is checked.
 */
#include "launcher/engine/elf.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

/* A file in memory. */
struct view {
    const uint8_t *bytes;
    size_t len;
};

/* What the dynamic section says of its strings. */
struct strings {
    uint64_t offset; /* in the file */
    uint64_t size;
};

void elf_needs_fini(struct elf_needs *needs)
{
    arguments_fini(&needs->libraries);
    arguments_fini(&needs->folders);
}

/* Copies, so that nothing depends on how the file is aligned. */
static bool copy_out(const struct view *view, uint64_t offset, void *out, size_t size)
{
    if (offset > view->len || view->len - offset < size) {
        return false;
    }
    memcpy(out, view->bytes + offset, size);
    return true;
}

static bool read_header(const struct view *view, Elf64_Ehdr *header)
{
    const uint16_t one = 1;
    uint8_t low;

    memcpy(&low, &one, 1);
    return copy_out(view, 0, header, sizeof *header) &&
            memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
            header->e_ident[EI_CLASS] == ELFCLASS64 &&
            header->e_ident[EI_DATA] == (low == 1 ? ELFDATA2LSB : ELFDATA2MSB) &&
            header->e_phentsize == sizeof(Elf64_Phdr);
}

static bool read_segment(const struct view *view, const Elf64_Ehdr *header,
        size_t index, Elf64_Phdr *segment)
{
    return index < header->e_phnum && header->e_phoff <= view->len &&
            copy_out(view, header->e_phoff + index * sizeof *segment, segment,
                    sizeof *segment);
}

static bool find_dynamic(
        const struct view *view, const Elf64_Ehdr *header, Elf64_Phdr *dynamic)
{
    for (size_t i = 0; read_segment(view, header, i, dynamic); i++) {
        if (dynamic->p_type == PT_DYNAMIC) {
            return true;
        }
    }
    return false;
}

/* The place in the file of what is at an address in memory. */
static bool place_of(const struct view *view, const Elf64_Ehdr *header,
        uint64_t address, uint64_t *offset)
{
    Elf64_Phdr segment;

    for (size_t i = 0; read_segment(view, header, i, &segment); i++) {
        if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
                address - segment.p_vaddr < segment.p_filesz) {
            *offset = segment.p_offset + (address - segment.p_vaddr);
            return true;
        }
    }
    return false;
}

/* The index-th entry of the dynamic section; false behind the last. */
static bool read_entry(const struct view *view, const Elf64_Phdr *dynamic, size_t index,
        Elf64_Dyn *entry)
{
    return index < dynamic->p_filesz / sizeof *entry &&
            dynamic->p_offset <= view->len &&
            copy_out(view, dynamic->p_offset + index * sizeof *entry, entry,
                    sizeof *entry) &&
            entry->d_tag != DT_NULL;
}

static bool find_strings(const struct view *view, const Elf64_Ehdr *header,
        const Elf64_Phdr *dynamic, struct strings *strings)
{
    Elf64_Dyn entry;
    bool has_place = false;

    *strings = (struct strings){ .size = 0 };
    for (size_t i = 0; read_entry(view, dynamic, i, &entry); i++) {
        if (entry.d_tag == DT_STRTAB) {
            has_place = place_of(view, header, entry.d_un.d_ptr, &strings->offset);
        } else if (entry.d_tag == DT_STRSZ) {
            strings->size = entry.d_un.d_val;
        }
    }
    return has_place && strings->offset <= view->len &&
            strings->size <= view->len - strings->offset;
}

/* A string of the table; NULL when it does not end inside. */
static const char *string_at(
        const struct view *view, const struct strings *strings, uint64_t index)
{
    const uint8_t *start;

    if (index >= strings->size) {
        return NULL;
    }
    start = view->bytes + strings->offset + index;
    if (memchr(start, '\0', (size_t)(strings->size - index)) == NULL) {
        return NULL;
    }
    return (const char *)start;
}

/* Splits "a:b". */
static void add_folders(struct arguments *folders, const char *path)
{
    while (*path != '\0') {
        size_t len = strcspn(path, ":");

        if (len > 0) {
            arguments_add_format(folders, "%.*s", (int)len, path);
        }
        path += path[len] == ':' ? len + 1 : len;
    }
}

bool elf_read(const void *bytes, size_t len, struct elf_needs *needs)
{
    const struct view view = { .bytes = bytes, .len = len };
    struct strings strings;
    Elf64_Phdr dynamic;
    Elf64_Ehdr header;
    Elf64_Dyn entry;

    if (!read_header(&view, &header) || !find_dynamic(&view, &header, &dynamic) ||
            !find_strings(&view, &header, &dynamic, &strings)) {
        return false;
    }
    for (size_t i = 0; read_entry(&view, &dynamic, i, &entry); i++) {
        const bool is_folder = entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH;
        const char *text = is_folder || entry.d_tag == DT_NEEDED
                ? string_at(&view, &strings, entry.d_un.d_val)
                : NULL;

        if (text != NULL && is_folder) {
            add_folders(&needs->folders, text);
        } else if (text != NULL) {
            arguments_add(&needs->libraries, text);
        }
    }
    return true;
}
