/*
 * A program that writes lines until nobody reads them any more, says on stderr how many
 * there were, and ends while they wait.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LINE_BYTES = 1024,
    STUCK_MS = 300 /* without room in the pipe: the reader has stopped */
};

int main(void)
{
    static const char first[] = "first\n";
    char line[LINE_BYTES];
    struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
    int count = 0;

    memset(line, 'a', sizeof line);
    line[sizeof line - 1] = '\n';
    if (fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK) != 0 ||
            write(STDOUT_FILENO, first, sizeof first - 1) < 0) {
        return EXIT_FAILURE;
    }
    while (poll(&out, 1, STUCK_MS) > 0) {
        while (write(STDOUT_FILENO, line, sizeof line) > 0) {
            count++;
        }
    }
    (void)fprintf(stderr, "wrote %d\n", count);
    return EXIT_SUCCESS;
}
