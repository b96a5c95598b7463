/*
 * strange_libc.c - a libc with faults, for tests: preload it (LD_PRELOAD) and say which
 *
 *   STRANGE_NO_LOCKS=1      no file can be locked, as on some network file systems: ENOLCK
 *   STRANGE_CLOCK=FILE      the time of day is off by so many seconds as FILE says, read at every look; the monotonic
 *                           clock goes on as it is, which is what happens when a machine's clock is set
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int forbidden(int command)
{
    switch (command) {
    case F_SETLK: case F_SETLKW: case F_GETLK: case F_OFD_SETLK: case F_OFD_SETLKW: case F_OFD_GETLK:
        return getenv("STRANGE_NO_LOCKS") != NULL;
    }
    return 0;
}

static int control(const char *name, int file, int command, void *argument)
{
    if (forbidden(command)) {
        errno = ENOLCK;
        return -1;
    }
    int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);
    return real(file, command, argument);
}

int fcntl(int file, int command, ...)
{
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return control("fcntl", file, command, argument);
}

int fcntl64(int file, int command, ...)
{
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return control("fcntl64", file, command, argument);
}

int flock(int file, int operation)
{
    if (getenv("STRANGE_NO_LOCKS") != NULL) {
        errno = ENOLCK;
        return -1;
    }
    return (int)syscall(SYS_flock, file, operation);
}

static long offset(void)
{
    const char *path = getenv("STRANGE_CLOCK");
    char text[32] = "";
    if (path == NULL)
        return 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    return size > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int (*real)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && clock == CLOCK_REALTIME)
        now->tv_sec += offset();
    return failed;
}

time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result != NULL)
        *result = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}
