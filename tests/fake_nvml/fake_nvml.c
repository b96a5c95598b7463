/*
 * fake_nvml.c - a scriptable stand-in for libnvidia-ml.so.1
 *
 * It lets NVML clients (nvidia-ml-py, nvitop, gpustat, labtui's sampler) run on a machine that has no GPU. Device
 * count, names, values over time and error codes come from a small text file, so a test can replay a GPU that falls
 * off the bus, a driver that lacks a query, calls that hang, or a training job's utilisation curve.
 *
 * Build:   make            (tests build it by themselves, see fixture.py)
 * Use:     FAKE_NVML_SCRIPT=8xh100.txt LD_LIBRARY_PATH=build nvitop
 *
 * It carries no soname on purpose: a process that loaded it by its path still finds no "libnvidia-ml.so.1".
 *
 * Environment
 *   FAKE_NVML_SCRIPT     script to read; read again whenever path or mtime change. Without it: 8 idle devices.
 *   FAKE_NVML_TICK_FILE  file that holds one integer, the current tick, read at every call: a test moves time by
 *                        rewriting it, and counters move with it (a tick is tick_ms long). Without it:
 *                        tick = (now - the script's mtime) / tick_ms, so that two programs started at different
 *                        times see the same values at the same moment.
 *   FAKE_NVML_TRACE      file to which a per-function call count is appended when the process ends normally.
 *
 * Script: one statement a line, '#' starts a comment.
 *   gpus N                       number of devices (1..16, default 8)
 *   tick_ms N                    length of a tick (default 1000)
 *   driver STR | nvml STR | cuda N (12080 = 12.8)
 *   topology nvswitch|pairs|pcie preset for NVLink, P2P and common ancestors
 *   topo A B LEVEL               common ancestor: 0 board, 10 single switch, 20 multiple, 30 host bridge, 40 node,
 *                                50 system
 *   p2p A B STATUS               0 OK .. 6 unknown (nvmlGpuP2PStatus_t)
 *   gpu I|* KEY VALUE            text keys: name uuid serial busid
 *                                number keys: see KEYS below; VALUE is a series
 *   gpu I|* proc PID C|G|M MIB [SM%]   a process on the GPU; MIB -1: its memory isn't told
 *   gpu I|* procs clear                drops the processes given before
 *   gpu I|* xid CODE TICK              a critical error at that tick, for whoever registered before
 *   gpu I mig_device GI CI UUID        a MIG device (set the key mig to 1 as well)
 *   error FUNC I|* CODE [FROM TO]      FUNC (or * for every device function) returns CODE from tick FROM to TO
 *   field ID I|* CODE [FROM TO]        that field value has CODE
 *   lost I FROM [TO]             every device function returns GPU_IS_LOST
 *   delay FUNC MS [I|*]          FUNC sleeps MS before it answers
 *   hang FUNC I|* FROM [TO]      FUNC does not return while the tick is within FROM..TO
 *   init_error CODE              nvmlInit fails with CODE
 *
 * A series is  7 | 1,5,9 (one value a tick, cycled) | 1,5,9! (hold the last) | ramp(a,b,n) | wave(lo,hi,period)
 *   | rand(lo,hi)   (rand is a hash of tick, device and key: the same for every process).
 *
 * The struct layouts below are NVML's public ABI as nvidia-ml-py declares it.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MAX_GPUS 16
#define MAX_LINKS 18
#define MAX_PROCS 64
#define MAX_SERIES 512
#define MAX_RULES 128
#define MAX_XIDS 64
#define MAX_MIGS 64
#define MAX_SETS 256

typedef int nvmlReturn_t;
enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4,
    NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10,
    FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15, RESET_REQUIRED = 16,
    LIB_RM_VERSION_MISMATCH = 18, NO_DATA = 21, ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999
};
static const struct { const char *name; int code; } CODES[] = {
    {"SUCCESS", OK}, {"UNINITIALIZED", UNINITIALIZED}, {"INVALID_ARGUMENT", INVALID_ARGUMENT},
    {"NOT_SUPPORTED", NOT_SUPPORTED}, {"NO_PERMISSION", NO_PERMISSION}, {"NOT_FOUND", NOT_FOUND},
    {"INSUFFICIENT_SIZE", INSUFFICIENT_SIZE}, {"DRIVER_NOT_LOADED", DRIVER_NOT_LOADED},
    {"TIMEOUT", TIMEOUT}, {"FUNCTION_NOT_FOUND", FUNCTION_NOT_FOUND}, {"GPU_IS_LOST", GPU_IS_LOST},
    {"RESET_REQUIRED", RESET_REQUIRED}, {"LIB_RM_VERSION_MISMATCH", LIB_RM_VERSION_MISMATCH},
    {"NO_DATA", NO_DATA}, {"ARGUMENT_VERSION_MISMATCH", ARGUMENT_VERSION_MISMATCH}, {"UNKNOWN", UNKNOWN},
};

/* ---- number keys: name and default ------------------------------------- */
#define KEYS(X) \
    X(util, 0) X(mem_util, 0) X(mem_total_mib, 81559) X(mem_used_mib, 600) X(mem_reserved_mib, 551) \
    X(bar1_total_mib, 131072) X(bar1_used_mib, 2) X(power_w, 75) X(power_limit_w, 700) \
    X(temp, 32) X(mem_temp, 38) X(temp_slowdown, 90) X(temp_shutdown, 95) X(fan, -1) \
    X(clock_graphics, 1980) X(clock_sm, 1980) X(clock_mem, 2619) X(clock_video, 1545) \
    X(max_clock_graphics, 1980) X(max_clock_sm, 1980) X(max_clock_mem, 2619) X(max_clock_video, 1545) \
    X(pstate, 0) X(pcie_tx_kib_s, 0) X(pcie_rx_kib_s, 0) X(pcie_gen, 5) X(pcie_width, 16) \
    X(pcie_max_gen, 5) X(pcie_max_width, 16) X(pcie_counter_bits, 32) \
    X(pcie_replay, 0) X(nvlink_links, 18) X(nvlink_version, 6) X(nvlink_speed_mbps, 26562) \
    X(nvlink_down_mask, 0) X(nvlink_tx_kib_s, 0) X(nvlink_rx_kib_s, 0) X(nvlink_errors, 0) \
    X(throttle, 1) X(ecc_corrected, 0) X(ecc_uncorrected, 0) X(ecc_mode, 1) X(enc, 0) X(dec, 0) \
    X(persistence, 1) X(compute_mode, 0) X(cc_major, 9) X(cc_minor, 0) X(arch, 9) X(cores, 16896) \
    X(numa, -1) X(mig, 0) X(xid_events, 1)
enum {
#define X(n, d) K_##n,
    KEYS(X)
#undef X
    NKEYS
};
static const char *KEY_NAME[] = {
#define X(n, d) #n,
    KEYS(X)
#undef X
};
static const double KEY_DEFAULT[] = {
#define X(n, d) d,
    KEYS(X)
#undef X
};

typedef struct { char kind; int n; double v[MAX_SERIES]; } Series; /* kind: c,l,h,r,w,x */
typedef struct { unsigned pid; char type; unsigned long long bytes; unsigned sm; } Proc;
typedef struct {
    unsigned magic, index;
    char name[96], uuid[96], serial[32], busid[32];
    Series *key[NKEYS];
    Proc proc[MAX_PROCS]; int nproc;
    double nv_tx, nv_rx, pcie_tx, pcie_rx, energy_mj, last_ms; /* running counters */
} Gpu;
typedef struct { char fn[64]; int gpu, code; long from, to; } Rule;
typedef struct { char fn[64]; int gpu, ms; } Delay;
typedef struct { int gpu; unsigned code; long tick; } Xid;
typedef struct { int gpu; unsigned gi, ci; char uuid[96]; } Mig;
typedef struct { int used; long since[MAX_GPUS]; unsigned long long gpus, seen; } EventSet;
typedef struct { char fn[64]; unsigned long calls; } Trace;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Gpu gpus[MAX_GPUS];
static int ngpu = 8, inits, init_error, nrules, ndelays, nhangs, nfields, nxids, nmigs, loaded, ntrace;
static long tick_ms = 1000;
static char driver[80] = "570.124.06", nvmlver[80] = "12.570.124.06", topology[16] = "nvswitch";
static int cuda_version = 12080;
static signed char topo[MAX_GPUS][MAX_GPUS], p2p[MAX_GPUS][MAX_GPUS];
static Rule rules[MAX_RULES], hangs[MAX_RULES], fields[MAX_RULES];
static Delay delays[MAX_RULES];
static Xid xids[MAX_XIDS];
static Mig migs[MAX_MIGS];
static EventSet sets[MAX_SETS];
static char script_path[4096];
static Trace trace[256];
static double epoch_ms;
static struct timespec script_mtime;
static double last_stat_ms;

static double now_ms(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }

static long current_tick(void)
{
    const char *f = getenv("FAKE_NVML_TICK_FILE");
    if (f) {
        FILE *h = fopen(f, "r"); long t = 0;
        if (h) { if (fscanf(h, "%ld", &t) != 1) t = 0; fclose(h); }
        return t;
    }
    double d = (now_ms() - epoch_ms) / tick_ms;
    return d < 0 ? 0 : (long)d;
}

/* The time by which counters move. */
static double model_ms(long tick) { return getenv("FAKE_NVML_TICK_FILE") ? (double)tick * tick_ms : now_ms(); }

/* ---- series ------------------------------------------------------------- */
static unsigned hash32(unsigned a) { a ^= a >> 16; a *= 0x7feb352du; a ^= a >> 15; a *= 0x846ca68bu; return a ^ (a >> 16); }

static double series_at(const Series *s, long tick, unsigned salt)
{
    switch (s->kind) {
    case 'l': return s->v[tick % s->n];
    case 'h': return s->v[tick < s->n ? tick : s->n - 1];
    case 'r': { double f = tick >= s->v[2] ? 1 : tick / s->v[2]; return s->v[0] + f * (s->v[1] - s->v[0]); }
    case 'w': return s->v[0] + (s->v[1] - s->v[0]) * (0.5 - 0.5 * cos(2 * M_PI * (tick + salt % 7) / s->v[2]));
    case 'x': return s->v[0] + (s->v[1] - s->v[0]) * (hash32((unsigned)tick * 2654435761u + salt) / 4294967295.0);
    default: return s->v[0];
    }
}

static double value(const Gpu *g, int key, long tick)
{
    return g->key[key] ? series_at(g->key[key], tick, g->index * 97u + key) : KEY_DEFAULT[key];
}

static Series *parse_series(const char *t)
{
    Series *s = calloc(1, sizeof *s);
    double a, b, c;
    if (!s) return NULL;
    if (sscanf(t, "ramp(%lf,%lf,%lf)", &a, &b, &c) == 3) { s->kind = 'r'; s->v[0] = a; s->v[1] = b; s->v[2] = c > 0 ? c : 1; return s; }
    if (sscanf(t, "wave(%lf,%lf,%lf)", &a, &b, &c) == 3) { s->kind = 'w'; s->v[0] = a; s->v[1] = b; s->v[2] = c > 0 ? c : 1; return s; }
    if (sscanf(t, "rand(%lf,%lf)", &a, &b) == 2) { s->kind = 'x'; s->v[0] = a; s->v[1] = b; return s; }
    while (*t && s->n < MAX_SERIES) {
        char *e; s->v[s->n++] = strtod(t, &e);
        if (e == t) { free(s); return NULL; }
        t = *e == ',' ? e + 1 : e;
        if (*t == '!') { s->kind = 'h'; return s; }
        if (*e != ',') break;
    }
    s->kind = s->n > 1 ? 'l' : 'c';
    return s;
}

/* ---- script ------------------------------------------------------------- */
static int parse_code(const char *s)
{
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++)
        if (!strcasecmp(s, CODES[i].name)) return CODES[i].code;
    return isdigit((unsigned char)*s) ? atoi(s) : UNKNOWN;
}

static void topology_preset(void)
{
    for (int i = 0; i < MAX_GPUS; i++)
        for (int j = 0; j < MAX_GPUS; j++) {
            int same_half = (i < (ngpu + 1) / 2) == (j < (ngpu + 1) / 2), pair = i / 2 == j / 2;
            if (i == j) topo[i][j] = 0;
            else if (!strcmp(topology, "nvswitch")) topo[i][j] = same_half ? 40 : 50;
            else topo[i][j] = pair ? 10 : same_half ? 30 : 50;
            p2p[i][j] = strcmp(topology, "pcie") ? 0 : (pair || i == j ? 0 : 1);
        }
}

static void defaults(void)
{
    for (int i = 0; i < MAX_GPUS; i++) {
        Gpu *g = &gpus[i];
        for (int k = 0; k < NKEYS; k++) { free(g->key[k]); g->key[k] = NULL; }
        g->magic = 0xF4E71000u; g->index = i; g->nproc = 0;
        snprintf(g->name, sizeof g->name, "NVIDIA Fake GPU");
        snprintf(g->uuid, sizeof g->uuid, "GPU-fa4e0000-0000-4000-8000-%012d", i);
        snprintf(g->serial, sizeof g->serial, "16500000%02d", i);
        snprintf(g->busid, sizeof g->busid, "00000000:%02X:00.0", 0x1b + i * 8);
    }
    ngpu = 8; tick_ms = 1000; nrules = ndelays = nhangs = nfields = nxids = nmigs = init_error = 0;
    snprintf(driver, sizeof driver, "570.124.06"); snprintf(nvmlver, sizeof nvmlver, "12.570.124.06");
    snprintf(topology, sizeof topology, "nvswitch");
}

static void parse_line(char *line)
{
    char *hash = strchr(line, '#'); if (hash) *hash = 0;
    char w[3][64] = {{0}}; char rest[4096] = ""; int off = 0;
    if (sscanf(line, "%63s %63s %63s %n%4095[^\n]", w[0], w[1], w[2], &off, rest) < 2) return;
    for (char *e = rest + strlen(rest); e > rest && isspace((unsigned char)e[-1]);) *--e = 0;
    char tail[4096]; /* everything after the first word */
    snprintf(tail, sizeof tail, "%s", line + strspn(line, " \t") + strlen(w[0]));
    char *t = tail + strspn(tail, " \t"); t[strcspn(t, "\r\n")] = 0;

    if (!strcmp(w[0], "gpus")) { ngpu = atoi(w[1]); if (ngpu < 0) ngpu = 0; if (ngpu > MAX_GPUS) ngpu = MAX_GPUS; topology_preset(); }
    else if (!strcmp(w[0], "tick_ms")) tick_ms = atol(w[1]) > 0 ? atol(w[1]) : 1000;
    else if (!strcmp(w[0], "driver")) snprintf(driver, sizeof driver, "%s", w[1]);
    else if (!strcmp(w[0], "nvml")) snprintf(nvmlver, sizeof nvmlver, "%s", w[1]);
    else if (!strcmp(w[0], "cuda")) cuda_version = atoi(w[1]);
    else if (!strcmp(w[0], "init_error")) init_error = parse_code(w[1]);
    else if (!strcmp(w[0], "topology")) { snprintf(topology, sizeof topology, "%.15s", w[1]); topology_preset(); }
    else if (!strcmp(w[0], "topo") || !strcmp(w[0], "p2p")) {
        int a, b, v;
        if (sscanf(t, "%d %d %d", &a, &b, &v) == 3 && a >= 0 && b >= 0 && a < MAX_GPUS && b < MAX_GPUS) {
            signed char (*m)[MAX_GPUS] = w[0][0] == 't' ? topo : p2p;
            m[a][b] = m[b][a] = (signed char)v;
        }
    } else if (!strcmp(w[0], "delay") && ndelays < MAX_RULES) {
        Delay *d = &delays[ndelays++];
        snprintf(d->fn, 64, "%s", w[1]); d->ms = atoi(w[2]); d->gpu = isdigit((unsigned char)*rest) ? atoi(rest) : -1;
    } else if (!strcmp(w[0], "hang") && nhangs < MAX_RULES) {
        Rule *r = &hangs[nhangs++]; long a = 0, b = 1L << 60;
        sscanf(rest, "%ld %ld", &a, &b);
        *r = (Rule){"", *w[2] == '*' ? -1 : atoi(w[2]), 0, a, b};
        snprintf(r->fn, sizeof r->fn, "%s", w[1]);
    } else if (!strcmp(w[0], "lost") && nrules < MAX_RULES) {
        Rule *r = &rules[nrules++]; int g; long a = 0, b = 1L << 60;
        sscanf(t, "%d %ld %ld", &g, &a, &b);
        *r = (Rule){"*", g, GPU_IS_LOST, a, b};
    } else if ((!strcmp(w[0], "error") && nrules < MAX_RULES) || (!strcmp(w[0], "field") && nfields < MAX_RULES)) {
        char fn[64], gs[16], code[40]; long a = 0, b = 1L << 60;
        if (sscanf(t, "%63s %15s %39s %ld %ld", fn, gs, code, &a, &b) < 3) return;
        Rule *r = *w[0] == 'e' ? &rules[nrules++] : &fields[nfields++];
        *r = (Rule){"", *gs == '*' ? -1 : atoi(gs), parse_code(code), a, b};
        snprintf(r->fn, sizeof r->fn, "%s", fn);
    } else if (!strcmp(w[0], "gpu")) {
        int from = *w[1] == '*' ? 0 : atoi(w[1]), to = *w[1] == '*' ? MAX_GPUS - 1 : from;
        if (from < 0 || from >= MAX_GPUS) return;
        for (int i = from; i <= to; i++) {
            Gpu *g = &gpus[i];
            if (!strcmp(w[2], "name")) snprintf(g->name, sizeof g->name, "%.95s", rest);
            else if (!strcmp(w[2], "uuid")) snprintf(g->uuid, sizeof g->uuid, "%.95s", rest);
            else if (!strcmp(w[2], "serial")) snprintf(g->serial, sizeof g->serial, "%.31s", rest);
            else if (!strcmp(w[2], "busid")) snprintf(g->busid, sizeof g->busid, "%.31s", rest);
            else if (!strcmp(w[2], "procs")) g->nproc = 0;
            else if (!strcmp(w[2], "proc") && g->nproc < MAX_PROCS) {
                unsigned pid, sm = 0; char ty = 'C'; double mib = 0;
                if (sscanf(rest, "%u %c %lf %u", &pid, &ty, &mib, &sm) >= 3)
                    g->proc[g->nproc++] = (Proc){pid, ty, mib < 0 ? ~0ULL : (unsigned long long)(mib * 1048576), sm};
            } else if (!strcmp(w[2], "xid") && nxids < MAX_XIDS) {
                Xid x = {i, 0, 0};
                if (sscanf(rest, "%u %ld", &x.code, &x.tick) == 2) xids[nxids++] = x;
            } else if (!strcmp(w[2], "mig_device") && nmigs < MAX_MIGS) {
                Mig m = {i, 0, 0, ""};
                if (sscanf(rest, "%u %u %95s", &m.gi, &m.ci, m.uuid) == 3) migs[nmigs++] = m;
            } else for (int k = 0; k < NKEYS; k++)
                if (!strcmp(w[2], KEY_NAME[k])) { free(g->key[k]); g->key[k] = parse_series(rest); }
        }
    }
}

/* Reload the script if it changed; without a tick file the stat is done at most every 20 ms. */
static void refresh(void)
{
    const char *path = getenv("FAKE_NVML_SCRIPT");
    double t = now_ms(); struct stat st;
    int same = !strcmp(script_path, path ? path : "");
    if (loaded && same && !getenv("FAKE_NVML_TICK_FILE") && t - last_stat_ms < 20) return;
    last_stat_ms = t;
    if (!path || stat(path, &st)) {
        if (!loaded || !same) { defaults(); topology_preset(); epoch_ms = t; loaded = 1; script_path[0] = 0; }
        return;
    }
    if (loaded && same && st.st_mtim.tv_sec == script_mtime.tv_sec && st.st_mtim.tv_nsec == script_mtime.tv_nsec) return;
    FILE *h = fopen(path, "r"); char line[8192];
    if (!h) return;
    if (!same) /* another story: counters begin anew, PCIe's close below 2^32 */
        for (int i = 0; i < MAX_GPUS; i++) {
            Gpu *g = &gpus[i];
            g->nv_tx = g->nv_rx = g->energy_mj = g->last_ms = 0; g->pcie_tx = 4194000 + i; g->pcie_rx = 4193000 + i;
        }
    defaults(); topology_preset();
    while (fgets(line, sizeof line, h)) parse_line(line);
    fclose(h);
    snprintf(script_path, sizeof script_path, "%s", path);
    script_mtime = st.st_mtim; epoch_ms = st.st_mtim.tv_sec * 1e3 + st.st_mtim.tv_nsec / 1e6; loaded = 1;
}

/* ---- call bookkeeping --------------------------------------------------- */
static void dump_trace(void)
{
    const char *p = getenv("FAKE_NVML_TRACE"); FILE *h = p ? fopen(p, "a") : NULL;
    if (!h) return;
    fprintf(h, "# pid %d\n", (int)getpid());
    for (int i = 0; i < ntrace; i++) fprintf(h, "%8lu  %s\n", trace[i].calls, trace[i].fn);
    fclose(h);
}
__attribute__((constructor)) static void start(void) { if (getenv("FAKE_NVML_TRACE")) atexit(dump_trace); }

static void count_call(const char *fn)
{
    if (!getenv("FAKE_NVML_TRACE")) return;
    int i = 0; while (i < ntrace && strcmp(trace[i].fn, fn)) i++;
    if (i == ntrace) { if (ntrace == 256) return; snprintf(trace[ntrace++].fn, 64, "%s", fn); }
    trace[i].calls++;
}

static Gpu *device(void *h)
{
    for (int i = 0; i < ngpu; i++) if (h == &gpus[i]) return &gpus[i];
    return NULL;
}

/* Integrate the rate series into the running counters up to now. */
static void advance(Gpu *g, long tick)
{
    double t = model_ms(tick), dt = g->last_ms ? (t - g->last_ms) / 1e3 : 0;
    if (dt < 0) dt = 0;
    g->last_ms = t;
    g->nv_tx += dt * value(g, K_nvlink_tx_kib_s, tick); g->nv_rx += dt * value(g, K_nvlink_rx_kib_s, tick);
    g->pcie_tx += dt * value(g, K_pcie_tx_kib_s, tick); g->pcie_rx += dt * value(g, K_pcie_rx_kib_s, tick);
    g->energy_mj += dt * value(g, K_power_w, tick) * 1e3;
}

/* Held by every API function from enter() to its return, so that a script
 * reload in one thread cannot change values under another. */
static void release(int *held) { if (*held) pthread_mutex_unlock(&lock); }

/* Common head of every call: trace, delay, init check, script rules. Returns
 * with the lock held; a scripted delay is slept without it. */
static nvmlReturn_t enter(const char *fn, Gpu *g, int need_gpu, long *tick)
{
    int ms = 0;
    pthread_mutex_lock(&lock);
    refresh(); count_call(fn);
    for (int i = 0; i < ndelays; i++)
        if (!strcmp(delays[i].fn, fn) && (delays[i].gpu < 0 || (g && (int)g->index == delays[i].gpu))) ms = delays[i].ms;
    if (ms) {
        struct timespec d = {ms / 1000, (ms % 1000) * 1000000L};
        pthread_mutex_unlock(&lock); nanosleep(&d, NULL); pthread_mutex_lock(&lock);
    }
    *tick = current_tick();
    for (int i = 0; i < nhangs; i++) {
        Rule *r = &hangs[i];
        if (strcmp(r->fn, fn) || (r->gpu >= 0 && !(g && (int)g->index == r->gpu)) || *tick < r->from || *tick > r->to) continue;
        struct timespec d = {0, 1000000L};
        pthread_mutex_unlock(&lock); nanosleep(&d, NULL); pthread_mutex_lock(&lock);
        refresh(); *tick = current_tick(); i = -1;
    }
    if (!inits) return UNINITIALIZED;
    if (need_gpu && !g) return INVALID_ARGUMENT;
    for (int i = 0; i < nrules; i++) {
        Rule *r = &rules[i];
        int hit = !strcmp(r->fn, fn) || (need_gpu && !strcmp(r->fn, "*"));
        if (hit && (r->gpu < 0 || (g && (int)g->index == r->gpu)) && *tick >= r->from && *tick <= r->to && r->code) return r->code;
    }
    if (g) advance(g, *tick);
    return OK;
}

static int is_fatal(const Gpu *g, long tick)
{   /* a lost GPU has no handle either */
    for (int k = 0; k < nrules; k++)
        if (!strcmp(rules[k].fn, "*") && (rules[k].gpu < 0 || rules[k].gpu == (int)g->index) && tick >= rules[k].from && tick <= rules[k].to)
            return rules[k].code;
    return OK;
}

#define HELD __attribute__((cleanup(release))) int held = 1
#define SYS long tick; HELD; nvmlReturn_t rc = enter(__func__, NULL, 0, &tick); if (rc) return rc; (void)tick
#define DEV long tick; HELD; Gpu *g = device(dev); nvmlReturn_t rc = enter(__func__, g, 1, &tick); if (rc) return rc; (void)tick
#define V(k) value(g, K_##k, tick)
#define MIB 1048576ULL
static nvmlReturn_t put_str(char *out, unsigned len, const char *s)
{
    if (!out || strlen(s) + 1 > len) return INSUFFICIENT_SIZE;
    strcpy(out, s); return OK;
}

/* ---- library ------------------------------------------------------------ */
API nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags; pthread_mutex_lock(&lock); refresh(); count_call(__func__);
    for (int i = 0; i < nhangs; i++) {
        if (strcmp(hangs[i].fn, "nvmlInit")) continue;
        long tick = current_tick(); struct timespec d = {0, 1000000L};
        if (tick < hangs[i].from || tick > hangs[i].to) continue;
        pthread_mutex_unlock(&lock); nanosleep(&d, NULL); pthread_mutex_lock(&lock);
        refresh(); i = -1;
    }
    nvmlReturn_t rc = init_error; if (!rc) inits++;
    pthread_mutex_unlock(&lock); return rc;
}
API nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }
API nvmlReturn_t nvmlShutdown(void)
{
    pthread_mutex_lock(&lock); count_call(__func__);
    nvmlReturn_t rc = inits ? OK : UNINITIALIZED; if (inits) inits--;
    pthread_mutex_unlock(&lock); return rc;
}
API const char *nvmlErrorString(nvmlReturn_t code)
{
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++) if (CODES[i].code == code) return CODES[i].name;
    return "Unknown Error";
}
API nvmlReturn_t nvmlSystemGetDriverVersion(char *s, unsigned n) { SYS; return put_str(s, n, driver); }
API nvmlReturn_t nvmlSystemGetNVMLVersion(char *s, unsigned n)
{   /* answers without nvmlInit too */
    pthread_mutex_lock(&lock); refresh(); count_call(__func__);
    nvmlReturn_t rc = put_str(s, n, nvmlver);
    pthread_mutex_unlock(&lock); return rc;
}
API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *v) { SYS; *v = cuda_version; return OK; }
API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *v) { SYS; *v = cuda_version; return OK; }
API nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *s, unsigned n)
{
    SYS; char p[64], b[256] = ""; snprintf(p, sizeof p, "/proc/%u/comm", pid);
    FILE *h = fopen(p, "r"); if (!h) return NOT_FOUND;
    if (fgets(b, sizeof b, h)) b[strcspn(b, "\n")] = 0;
    fclose(h); return put_str(s, n, b);
}
API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) { SYS; *n = (unsigned)ngpu; return OK; }
API nvmlReturn_t nvmlDeviceGetCount(unsigned *n) { return nvmlDeviceGetCount_v2(n); }
API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h)
{
    SYS; if (i >= (unsigned)ngpu) return INVALID_ARGUMENT;
    *h = &gpus[i]; return is_fatal(&gpus[i], tick);
}
API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned i, void **h) { return nvmlDeviceGetHandleByIndex_v2(i, h); }
API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *u, void **h)
{
    SYS; for (int i = 0; i < ngpu; i++) if (!strcmp(gpus[i].uuid, u)) { *h = &gpus[i]; return OK; }
    return NOT_FOUND;
}
API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *b, void **h)
{
    SYS; size_t n = strlen(b);
    for (int i = 0; i < ngpu; i++) {
        size_t m = strlen(gpus[i].busid);
        if (n <= m && !strcasecmp(gpus[i].busid + (m - n), b)) { *h = &gpus[i]; return OK; }
    }
    return NOT_FOUND;
}

/* ---- identity ----------------------------------------------------------- */
typedef struct {
    char busIdLegacy[16]; unsigned domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32];
} PciInfo;
static void pci_of(const Gpu *g, PciInfo *p)
{
    memset(p, 0, sizeof *p);
    sscanf(g->busid, "%x:%x:%x", &p->domain, &p->bus, &p->device);
    snprintf(p->busId, sizeof p->busId, "%.31s", g->busid);
    snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "%04X:%02X:%02X.0", p->domain & 0xffff, p->bus & 0xff, p->device & 0xff);
    p->pciDeviceId = 0x233010DE; p->pciSubSystemId = 0x16C110DE;
}
API nvmlReturn_t nvmlDeviceGetIndex(void *dev, unsigned *i) { DEV; *i = g->index; return OK; }
API nvmlReturn_t nvmlDeviceGetMinorNumber(void *dev, unsigned *i) { DEV; *i = g->index; return OK; }
API nvmlReturn_t nvmlDeviceGetName(void *dev, char *s, unsigned n) { DEV; return put_str(s, n, g->name); }
static Mig *mig_of(void *dev)
{
    for (int i = 0; i < nmigs; i++) if (dev == &migs[i]) return &migs[i];
    return NULL;
}
API nvmlReturn_t nvmlDeviceGetUUID(void *dev, char *s, unsigned n)
{
    if (mig_of(dev)) return put_str(s, n, mig_of(dev)->uuid);
    DEV; return put_str(s, n, g->uuid);
}
API nvmlReturn_t nvmlDeviceGetSerial(void *dev, char *s, unsigned n) { DEV; return put_str(s, n, g->serial); }
API nvmlReturn_t nvmlDeviceGetPciInfo_v3(void *dev, PciInfo *p) { DEV; pci_of(g, p); return OK; }
API nvmlReturn_t nvmlDeviceGetPciInfo_v2(void *dev, PciInfo *p) { return nvmlDeviceGetPciInfo_v3(dev, p); }
API nvmlReturn_t nvmlDeviceGetBrand(void *dev, unsigned *b) { DEV; *b = 14; return OK; }
API nvmlReturn_t nvmlDeviceGetArchitecture(void *dev, unsigned *a) { DEV; *a = (unsigned)V(arch); return OK; }
API nvmlReturn_t nvmlDeviceGetNumGpuCores(void *dev, unsigned *c) { DEV; *c = (unsigned)V(cores); return OK; }
API nvmlReturn_t nvmlDeviceGetMemoryBusWidth(void *dev, unsigned *w) { DEV; *w = 5120; return OK; }
API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(void *dev, int *a, int *b) { DEV; *a = (int)V(cc_major); *b = (int)V(cc_minor); return OK; }
API nvmlReturn_t nvmlDeviceGetPersistenceMode(void *dev, unsigned *m) { DEV; *m = (unsigned)V(persistence); return OK; }
API nvmlReturn_t nvmlDeviceGetComputeMode(void *dev, unsigned *m) { DEV; *m = (unsigned)V(compute_mode); return OK; }
API nvmlReturn_t nvmlDeviceGetDisplayMode(void *dev, unsigned *m) { DEV; *m = 0; return OK; }
API nvmlReturn_t nvmlDeviceGetDisplayActive(void *dev, unsigned *m) { DEV; *m = 0; return OK; }
API nvmlReturn_t nvmlDeviceGetMigMode(void *dev, unsigned *c, unsigned *p) { DEV; if (V(mig) < 0) return NOT_SUPPORTED; *c = *p = V(mig) > 0; return OK; }
API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(void *dev, unsigned *c) { DEV; *c = V(mig) > 0 ? 7 : 0; return OK; }
API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(void *dev, unsigned index, void **h)
{
    DEV;
    for (int i = 0; i < nmigs; i++) if (migs[i].gpu == (int)g->index && index-- == 0) { *h = &migs[i]; return OK; }
    return NOT_FOUND;
}
API nvmlReturn_t nvmlDeviceGetGpuInstanceId(void *dev, unsigned *id) { Mig *m = mig_of(dev); if (!m) return INVALID_ARGUMENT; *id = m->gi; return OK; }
API nvmlReturn_t nvmlDeviceGetComputeInstanceId(void *dev, unsigned *id) { Mig *m = mig_of(dev); if (!m) return INVALID_ARGUMENT; *id = m->ci; return OK; }
API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(void *dev, unsigned *m) { if (mig_of(dev)) { *m = 1; return OK; } DEV; *m = 0; return OK; }

/* ---- load, memory, power, clocks ---------------------------------------- */
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
API nvmlReturn_t nvmlDeviceGetUtilizationRates(void *dev, Utilization *u) { DEV; u->gpu = (unsigned)V(util); u->memory = (unsigned)V(mem_util); return OK; }
API nvmlReturn_t nvmlDeviceGetMemoryInfo(void *dev, Memory *m)
{   /* v1 counts the driver's reserved memory as used */
    DEV; m->total = (unsigned long long)V(mem_total_mib) * MIB;
    m->used = (unsigned long long)(V(mem_used_mib) + V(mem_reserved_mib)) * MIB;
    m->free = m->total > m->used ? m->total - m->used : 0; return OK;
}
API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(void *dev, MemoryV2 *m)
{
    DEV; if (m->version != 0x02000028u) return ARGUMENT_VERSION_MISMATCH;
    m->total = (unsigned long long)V(mem_total_mib) * MIB; m->reserved = (unsigned long long)V(mem_reserved_mib) * MIB;
    m->used = (unsigned long long)V(mem_used_mib) * MIB;
    m->free = m->total > m->used + m->reserved ? m->total - m->used - m->reserved : 0; return OK;
}
API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(void *dev, Memory *m)
{   /* field order here is total, free, used as well */
    DEV; m->total = (unsigned long long)V(bar1_total_mib) * MIB; m->used = (unsigned long long)V(bar1_used_mib) * MIB;
    m->free = m->total - m->used; return OK;
}
API nvmlReturn_t nvmlDeviceGetPowerUsage(void *dev, unsigned *mw) { DEV; *mw = (unsigned)(V(power_w) * 1000); return OK; }
API nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(void *dev, unsigned *mw) { DEV; *mw = (unsigned)(V(power_limit_w) * 1000); return OK; }
API nvmlReturn_t nvmlDeviceGetPowerManagementLimit(void *dev, unsigned *mw) { DEV; *mw = (unsigned)(V(power_limit_w) * 1000); return OK; }
API nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(void *dev, unsigned long long *mj) { DEV; *mj = (unsigned long long)g->energy_mj; return OK; }
API nvmlReturn_t nvmlDeviceGetTemperature(void *dev, unsigned sensor, unsigned *t) { DEV; if (sensor) return INVALID_ARGUMENT; *t = (unsigned)V(temp); return OK; }
typedef struct { unsigned version; int sensor, temperature; } TemperatureV1;
API nvmlReturn_t nvmlDeviceGetTemperatureV(void *dev, TemperatureV1 *t) { DEV; if (t->version != 0x100000Cu) return ARGUMENT_VERSION_MISMATCH; t->temperature = (int)V(temp); return OK; }
API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(void *dev, unsigned kind, unsigned *t)
{
    DEV; if (kind == 0) *t = (unsigned)V(temp_shutdown); else if (kind == 1) *t = (unsigned)V(temp_slowdown); else return NOT_SUPPORTED;
    return OK;
}
API nvmlReturn_t nvmlDeviceGetFanSpeed(void *dev, unsigned *f) { DEV; if (V(fan) < 0) return NOT_SUPPORTED; *f = (unsigned)V(fan); return OK; }
API nvmlReturn_t nvmlDeviceGetPerformanceState(void *dev, unsigned *p) { DEV; *p = (unsigned)V(pstate); return OK; }
API nvmlReturn_t nvmlDeviceGetClockInfo(void *dev, unsigned t, unsigned *c)
{
    DEV; if (t > 3) return INVALID_ARGUMENT;
    *c = (unsigned)value(g, (int[]){K_clock_graphics, K_clock_sm, K_clock_mem, K_clock_video}[t], tick); return OK;
}
API nvmlReturn_t nvmlDeviceGetMaxClockInfo(void *dev, unsigned t, unsigned *c)
{
    DEV; if (t > 3) return INVALID_ARGUMENT;
    *c = (unsigned)value(g, (int[]){K_max_clock_graphics, K_max_clock_sm, K_max_clock_mem, K_max_clock_video}[t], tick); return OK;
}
API nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(void *dev, unsigned long long *r) { DEV; *r = (unsigned long long)V(throttle); return OK; }
API nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(void *dev, unsigned long long *r) { DEV; *r = (unsigned long long)V(throttle); return OK; }
API nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(void *dev, unsigned long long *r) { DEV; *r = 0x1ff; return OK; }
API nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(void *dev, unsigned long long *r) { DEV; *r = 0x1ff; return OK; }
API nvmlReturn_t nvmlDeviceGetEncoderUtilization(void *dev, unsigned *u, unsigned *us) { DEV; *u = (unsigned)V(enc); *us = 167000; return OK; }
API nvmlReturn_t nvmlDeviceGetDecoderUtilization(void *dev, unsigned *u, unsigned *us) { DEV; *u = (unsigned)V(dec); *us = 167000; return OK; }
API nvmlReturn_t nvmlDeviceGetEccMode(void *dev, unsigned *c, unsigned *p) { DEV; *c = *p = (unsigned)V(ecc_mode); return OK; }
API nvmlReturn_t nvmlDeviceGetTotalEccErrors(void *dev, unsigned type, unsigned counter, unsigned long long *n)
{
    DEV; (void)counter; if (!V(ecc_mode)) return NOT_SUPPORTED;
    *n = (unsigned long long)(type ? V(ecc_uncorrected) : V(ecc_corrected)); return OK;
}

/* ---- PCIe and NVLink ---------------------------------------------------- */
API nvmlReturn_t nvmlDeviceGetPcieThroughput(void *dev, unsigned counter, unsigned *kib) { DEV; if (counter > 1) return INVALID_ARGUMENT; *kib = (unsigned)(counter ? V(pcie_rx_kib_s) : V(pcie_tx_kib_s)); return OK; }
API nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(void *dev, unsigned *v) { DEV; *v = (unsigned)V(pcie_gen); return OK; }
API nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(void *dev, unsigned *v) { DEV; *v = (unsigned)V(pcie_max_gen); return OK; }
API nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(void *dev, unsigned *v) { DEV; *v = (unsigned)V(pcie_width); return OK; }
API nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(void *dev, unsigned *v) { DEV; *v = (unsigned)V(pcie_max_width); return OK; }
API nvmlReturn_t nvmlDeviceGetPcieReplayCounter(void *dev, unsigned *v) { DEV; *v = (unsigned)V(pcie_replay); return OK; }

static int links_of(const Gpu *g, long tick) { int n = strcmp(topology, "pcie") ? (int)V(nvlink_links) : 0; return n > MAX_LINKS ? MAX_LINKS : n; }
API nvmlReturn_t nvmlDeviceGetNvLinkState(void *dev, unsigned link, unsigned *active)
{
    DEV; if (link >= MAX_LINKS) return INVALID_ARGUMENT;
    if ((int)link >= links_of(g, tick)) return NOT_SUPPORTED;
    *active = !(((unsigned long)V(nvlink_down_mask) >> link) & 1); return OK;
}
API nvmlReturn_t nvmlDeviceGetNvLinkVersion(void *dev, unsigned link, unsigned *v) { DEV; if ((int)link >= links_of(g, tick)) return NOT_SUPPORTED; *v = (unsigned)V(nvlink_version); return OK; }
API nvmlReturn_t nvmlDeviceGetNvLinkCapability(void *dev, unsigned link, unsigned cap, unsigned *v) { DEV; (void)cap; if ((int)link >= links_of(g, tick)) return NOT_SUPPORTED; *v = 1; return OK; }
API nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(void *dev, unsigned link, unsigned kind, unsigned long long *v) { DEV; (void)kind; if ((int)link >= links_of(g, tick)) return NOT_SUPPORTED; *v = (unsigned long long)V(nvlink_errors); return OK; }
API nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(void *dev, unsigned link, unsigned *t) { DEV; if ((int)link >= links_of(g, tick)) return NOT_SUPPORTED; *t = strcmp(topology, "nvswitch") ? 0 : 2; return OK; }
API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(void *dev, unsigned link, PciInfo *p)
{   /* pairs: the other GPU of the pair; nvswitch: one of four switches */
    DEV; if ((int)link >= links_of(g, tick)) return NOT_SUPPORTED;
    if (!strcmp(topology, "nvswitch")) { Gpu sw = *g; snprintf(sw.busid, sizeof sw.busid, "00000000:%02X:00.0", 0x05 + link % 4); pci_of(&sw, p); }
    else pci_of(&gpus[g->index ^ 1], p);
    return OK;
}
API nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(void *dev, void *other, unsigned *level) { DEV; Gpu *o = device(other); if (!o) return INVALID_ARGUMENT; *level = (unsigned)topo[g->index][o->index]; return OK; }
API nvmlReturn_t nvmlDeviceGetP2PStatus(void *dev, void *other, unsigned index, unsigned *status)
{
    DEV; Gpu *o = device(other); if (!o) return INVALID_ARGUMENT;
    *status = (unsigned)p2p[g->index][o->index];
    if (index == 2 && *status == 0) { /* NVLink capability */
        int linked = !strcmp(topology, "nvswitch") || (!strcmp(topology, "pairs") && g->index / 2 == o->index / 2);
        if (!linked || g == o) *status = 5;
    }
    return OK;
}
API nvmlReturn_t nvmlDeviceGetNumaNodeId(void *dev, unsigned *n) { DEV; *n = (unsigned)(V(numa) >= 0 ? V(numa) : (int)g->index >= (ngpu + 1) / 2); return OK; }
API nvmlReturn_t nvmlDeviceGetCpuAffinity(void *dev, unsigned n, unsigned long *set)
{   /* the first half of the GPUs on the first half of the CPUs */
    DEV; long cpus = sysconf(_SC_NPROCESSORS_ONLN); int half = (int)g->index >= (ngpu + 1) / 2;
    memset(set, 0, n * sizeof *set);
    for (long c = 0; c < cpus && c < (long)n * 64; c++) if ((c >= (cpus + 1) / 2) == half || cpus == 1) set[c / 64] |= 1UL << (c % 64);
    return OK;
}

typedef struct {
    unsigned fieldId, scopeId; int64_t timestamp, latencyUsec; int valueType; nvmlReturn_t ret;
    union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; int si; } value;
} FieldValue;
API nvmlReturn_t nvmlDeviceGetFieldValues(void *dev, int n, FieldValue *f)
{
    DEV; int links = links_of(g, tick); double share;
    for (int i = 0; i < n; i++) {
        FieldValue *v = &f[i];
        int one = v->scopeId != 0xffffffffu, bad_link = one && (int)v->scopeId >= links;
        v->timestamp = (int64_t)(now_ms() * 1000); v->latencyUsec = 0; v->ret = OK; v->valueType = 3; v->value.ull = 0;
        share = one && links ? 1.0 / links : 1.0;
        switch (v->fieldId) {
        case 82: v->valueType = 1; v->value.ui = (unsigned)V(mem_temp); break;
        case 83: v->value.ull = (unsigned long long)g->energy_mj; break;
        case 90: case 164: v->valueType = 1; if (!links) v->ret = NOT_SUPPORTED; else v->value.ui = (unsigned)V(nvlink_speed_mbps); break;
        case 91: v->valueType = 1; v->value.ui = (unsigned)links; break;
        case 94: v->valueType = 1; v->value.ui = (unsigned)V(pcie_replay); break;
        case 138: case 140: if (!links || bad_link || V(nvlink_version) >= 7) v->ret = NOT_SUPPORTED; else v->value.ull = (unsigned long long)(g->nv_tx * share * (v->fieldId == 140 ? 1.08 : 1)); break;
        case 139: case 141: if (!links || bad_link || V(nvlink_version) >= 7) v->ret = NOT_SUPPORTED; else v->value.ull = (unsigned long long)(g->nv_rx * share * (v->fieldId == 141 ? 1.08 : 1)); break;
        case 165: v->valueType = 1; if (!links || bad_link) v->ret = NOT_SUPPORTED; else v->value.ui = !(((unsigned long)V(nvlink_down_mask) >> (one ? v->scopeId : 0)) & 1); break;
        case 166: v->valueType = 1; if (!links) v->ret = NOT_SUPPORTED; else v->value.ui = (unsigned)V(nvlink_version); break;
        case 185: case 186: v->valueType = 1; v->value.ui = (unsigned)(V(power_w) * 1000); break;
        case 189: case 190: v->valueType = 1; v->value.ui = (unsigned)(V(power_limit_w) * 1000); break;
        case 197: case 198:
            v->value.ull = (unsigned long long)((v->fieldId == 197 ? g->pcie_tx : g->pcie_rx) * 1024);
            if (V(pcie_counter_bits) == 32) { v->valueType = 1; v->value.ull &= 0xffffffffULL; }
            break;
        case 202: case 204: /* bytes, on NVLink 5 only */
            if (!links || bad_link || V(nvlink_version) < 7) v->ret = NOT_SUPPORTED;
            else v->value.ull = (unsigned long long)((v->fieldId == 202 ? g->nv_tx : g->nv_rx) * share * 1024);
            break;
        default: v->ret = NOT_SUPPORTED;
        }
        for (int k = 0; k < nfields; k++)
            if (atoi(fields[k].fn) == (int)v->fieldId && (fields[k].gpu < 0 || fields[k].gpu == (int)g->index) && tick >= fields[k].from && tick <= fields[k].to)
                v->ret = fields[k].code;
    }
    return OK;
}

/* ---- processes ---------------------------------------------------------- */
typedef struct { unsigned pid; unsigned long long usedGpuMemory; unsigned gpuInstanceId, computeInstanceId; } ProcessInfo;
static nvmlReturn_t list_procs(Gpu *g, char type, unsigned *n, ProcessInfo *out)
{
    unsigned want = 0;
    for (int i = 0; i < g->nproc; i++) want += g->proc[i].type == type;
    if (!out || *n < want) { unsigned had = *n; *n = want; return want && (had < want || !out) ? INSUFFICIENT_SIZE : OK; }
    *n = 0;
    for (int i = 0; i < g->nproc; i++)
        if (g->proc[i].type == type) out[(*n)++] = (ProcessInfo){g->proc[i].pid, g->proc[i].bytes, 0xffffffffu, 0xffffffffu};
    return OK;
}
API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(void *dev, unsigned *n, ProcessInfo *p) { DEV; return list_procs(g, 'C', n, p); }
API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(void *dev, unsigned *n, ProcessInfo *p) { DEV; return list_procs(g, 'G', n, p); }
API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(void *dev, unsigned *n, ProcessInfo *p) { DEV; return list_procs(g, 'M', n, p); }
/* The same structs under their older names. */
API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(void *dev, unsigned *n, ProcessInfo *p) { DEV; return list_procs(g, 'C', n, p); }
API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(void *dev, unsigned *n, ProcessInfo *p) { DEV; return list_procs(g, 'M', n, p); }
/* Exported because their presence tells clients which struct layout v3 uses. */
API nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(void *dev, void *list) { DEV; (void)list; return NOT_SUPPORTED; }
API nvmlReturn_t nvmlDeviceGetConfComputeMemSizeInfo(void *dev, void *info) { DEV; (void)info; return NOT_SUPPORTED; }

/* Windows only; nvitop logs an error when the symbols are missing altogether. */
API nvmlReturn_t nvmlDeviceGetDriverModel(void *dev, unsigned *c, unsigned *p) { DEV; (void)c; (void)p; return NOT_SUPPORTED; }
API nvmlReturn_t nvmlDeviceGetDriverModel_v2(void *dev, unsigned *c, unsigned *p) { DEV; (void)c; (void)p; return NOT_SUPPORTED; }

typedef struct { unsigned pid; unsigned long long timeStamp; unsigned smUtil, memUtil, encUtil, decUtil; } ProcessSample;
API nvmlReturn_t nvmlDeviceGetProcessUtilization(void *dev, ProcessSample *out, unsigned *n, unsigned long long since)
{
    DEV; (void)since;
    if (!g->nproc) { *n = 0; return NOT_FOUND; }
    if (!out || *n < (unsigned)g->nproc) { *n = (unsigned)g->nproc; return INSUFFICIENT_SIZE; }
    *n = (unsigned)g->nproc;
    for (int i = 0; i < g->nproc; i++)
        out[i] = (ProcessSample){g->proc[i].pid, (unsigned long long)(now_ms() * 1000),
                                 g->proc[i].sm ? g->proc[i].sm : (unsigned)(V(util) / g->nproc), (unsigned)V(mem_util), 0, 0};
    return OK;
}

/* ---- events ------------------------------------------------------------- */
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } EventData;
API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(void *dev, unsigned long long *types) { DEV; *types = V(xid_events) > 0 ? 0x1f : 0; return OK; }
API nvmlReturn_t nvmlEventSetCreate(void **set)
{
    SYS;
    for (int i = 0; i < MAX_SETS; i++)
        if (!sets[i].used) { memset(&sets[i], 0, sizeof sets[i]); sets[i].used = 1; *set = &sets[i]; return OK; }
    return UNKNOWN;
}
static EventSet *set_of(void *set)
{
    for (int i = 0; i < MAX_SETS; i++) if (set == &sets[i] && sets[i].used) return &sets[i];
    return NULL;
}
API nvmlReturn_t nvmlDeviceRegisterEvents(void *dev, unsigned long long types, void *set)
{
    DEV; EventSet *e = set_of(set); if (!e) return INVALID_ARGUMENT;
    if (V(xid_events) <= 0 || !(types & 8)) return NOT_SUPPORTED;
    e->gpus |= 1ULL << g->index; e->since[g->index] = tick; return OK;
}
API nvmlReturn_t nvmlEventSetWait_v2(void *set, EventData *data, unsigned timeout_ms)
{   /* never waits: what is due is told at once */
    SYS; EventSet *e = set_of(set); (void)timeout_ms; if (!e) return INVALID_ARGUMENT;
    for (int i = 0; i < nxids; i++) {
        if ((e->seen >> i & 1) || !(e->gpus >> xids[i].gpu & 1) || xids[i].tick > tick || xids[i].tick < e->since[xids[i].gpu]) continue;
        e->seen |= 1ULL << i;
        *data = (EventData){&gpus[xids[i].gpu], 8, xids[i].code, 0xffffffffu, 0xffffffffu};
        return OK;
    }
    return TIMEOUT;
}
API nvmlReturn_t nvmlEventSetFree(void *set) { SYS; EventSet *e = set_of(set); if (!e) return INVALID_ARGUMENT; e->used = 0; return OK; }
