/* Shifts a process's wall clock by CLOCK_OFFSET seconds, and runs its other clocks at CLOCK_RATE; see test_clocks.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

typedef int (*real_clock_gettime)(clockid_t, struct timespec *);

static double setting(const char *name, double otherwise) {
    const char *text = getenv(name);
    return text ? atof(text) : otherwise;
}

static int read_clock(clockid_t clock, struct timespec *found) {
    static real_clock_gettime real;
    if (!real) real = (real_clock_gettime)dlsym(RTLD_NEXT, "clock_gettime");
    return real(clock, found);
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    int code = read_clock(clock, found);
    if (code) return code;
    if (clock == CLOCK_REALTIME) {
        found->tv_sec += (time_t)setting("CLOCK_OFFSET", 0);
    } else if (clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME) {
        /* Scaled from boot on, so that all threads agree. */
        double seconds = (found->tv_sec + found->tv_nsec / 1e9) * setting("CLOCK_RATE", 1);
        found->tv_sec = (time_t)seconds;
        found->tv_nsec = (long)((seconds - found->tv_sec) * 1e9);
    }
    return 0;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
