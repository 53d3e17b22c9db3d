/* LD_PRELOAD: a wall clock that a test sets, by as many seconds as the file $SET_CLOCK says, from the moment that it is there. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long code = syscall(SYS_clock_gettime, clock, time);
    const char *path = getenv("SET_CLOCK");
    FILE *file = clock == CLOCK_REALTIME && path ? fopen(path, "r") : NULL;
    long seconds = 0;
    if (file && fscanf(file, "%ld", &seconds) == 1) time->tv_sec += seconds;
    if (file) fclose(file);
    return (int)code;
}
