/* Preloaded: the name NAMES_OF has the addresses that the file NAMES_FILE lists, one a line, as DNS would tell them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    static lookup *real;
    if (!real) real = (lookup *)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *ours = getenv("NAMES_OF"), *path = getenv("NAMES_FILE");
    FILE *file = name && ours && path && !strcmp(name, ours) ? fopen(path, "r") : NULL;
    if (!file) return real(name, service, hints, found);
    struct addrinfo *all = NULL, **end = &all;
    char line[64];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (*line && !real(line, service, hints, end))
            while (*end) end = &(*end)->ai_next;
    }
    fclose(file);
    if (!all) return EAI_NONAME;
    *found = all;
    return 0;
}
