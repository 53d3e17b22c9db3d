/* A libnvidia-ml.so.1 without a GPU: the functions and structures of nvml.h that the agent and its neighbours call.
 *
 * $NVML_STUB_SCENARIO names a text file that says what the driver is like. It is read again within a millisecond of being
 * replaced, so a test changes the driver's mood while an agent runs: write a new file, rename it over the old one. Without
 * one there are two healthy GPUs, an H200 and a T4. One statement a line, '#' begins a comment, GPU is a number or '*':
 *
 *   gpus N                      how many GPUs the driver shows (at most 16); all are h200 unless said
 *   gpu GPU h200|a100|t4        model; the t4 sits on an old driver: no field values, no BAR1, no version 2 of the memory call
 *   epoch GPU PERIOD DUTY       busy for the first DUTY (0..1) of every PERIOD seconds of unix time, else idle; default 1 1
 *   ripple R                    let activity vary by up to R (0..1) from one driver update to the next; default 0
 *   lost GPU                    the GPU is lost: every call about it says GPU_IS_LOST
 *   fail FUNCTION CODE GPU      FUNCTION (or * for all about a GPU) returns the NVML error CODE for that GPU; calls that
 *                               concern no GPU heed lines whose GPU is '*'
 *   slow FUNCTION MICROSECONDS  FUNCTION (or *) sleeps before it answers
 *   hang FUNCTION GPU           FUNCTION does not return for that GPU while this line is there
 *   spin ID MICROSECONDS        that field value burns CPU before it is there, and so does the function of the same value
 *   field ID CODE GPU           that field value's own return code
 *   value ID NUMBER GPU         that field value's answer, where it has one (error counters and the like are 0 else)
 *   event BIT SHARE GPU         that clocks event reason (its bit) holds for SHARE (0..1) of the time: what counts its time grows
 *                               so fast, and the bit is set while SHARE is more than 0; the GPU knows all reasons but those in
 *   unknown_events BITS GPU     which it does not have, and no counter of their time either
 *   fan GPU PERCENT             it has a fan
 *   odd GPU                     its name and serial number are no UTF-8
 *   license GPU STATE           it is a virtual GPU whose licence is in that state
 *   gpm ID CODE|nan GPU         that GPM metric's own return code, or a NaN with success
 *   energy GPU MILLIJOULES      the energy counter's value when the library was loaded; lowering it makes it run backwards
 *   pcie GPU START RATE         the PCIe byte counters (32 bits, they wrap) start at START and grow by RATE bytes/s when busy
 *   mig GPU GI:PROFILE[:CIS]…   MIG is on, with these GPU instances, each of CIS (1) compute instances
 *   xid SEQUENCE GPU CODE       an Xid event; told once to every event set made before the line with that SEQUENCE appeared
 *   pid GPU PID BYTES PERCENT   a compute process, its memory and its share of the SMs
 *   frozen 1                    this file is not looked at again: to measure callers without the stub's own file access
 *   log 1                       a line to $NVML_STUB_SCENARIO.log for each call about a GPU: unix time of the answer, function, GPU
 *   generation N                the driver was reloaded when this changes: until the last nvmlShutdown every call says UNKNOWN
 *
 * As a driver does, it refreshes values in steps: utilisation every 1/6 s, energy, power and GPM samples every 0.1 s.
 * Two GPM samples of one GPU (or instance) less than 0.1 s apart and overlapping GPM calls are appended, a line each, to
 * $NVML_STUB_SCENARIO.violations. nvml_stub_calls(FUNCTION) tells how often a function was called
 * since nvml_stub_forget_calls().
 */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, LOST = 15,
    VERSION_MISMATCH = 25, UNKNOWN = 999
};
enum { HANGS = -1 };
enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 };
enum { GPUS = 16, INSTANCES = 8, COMPUTE_INSTANCES = 4, FUNCTIONS = 128, RULES = 128, EVENTS = 64, PROCESSES = 64, ALL = -1 };

typedef unsigned long long u64;
typedef union { double d; unsigned ui; u64 ull; long long sll; } value;
typedef struct { unsigned fieldId, scopeId; long long timestamp, latencyUsec; int valueType, nvmlReturn; value value; } field;
typedef struct { u64 timeStamp; value value; } sample;
typedef struct { int gpu, instance, compute; } device; /* instance, compute: -1 for the whole GPU; slots, not ids */
typedef struct { double unix_time; int gpu, instance; } gpm_sample;
typedef struct { unsigned id; int code; double value; char *names[3]; } gpm_metric;
typedef struct { unsigned version, count; gpm_sample *older, *newer; gpm_metric metrics[]; } gpm_query;
typedef struct { device *device; u64 type, data; unsigned instance, compute; } event;
typedef struct { unsigned gpus; int told; } event_set;

typedef struct {
    const char *name, *label;
    int major, minor, cores, bus_width, gpm, modern, nvlink, pcie;
    double idle_w, busy_w, limit_w;
    u64 memory;
} model;
static const model MODELS[] = {
    {"NVIDIA H200", "h200", 9, 0, 16896, 6144, 1, 1, 1, 5, 75, 650, 700, 150754820096ull},
    {"NVIDIA A100-SXM4-40GB", "a100", 8, 0, 6912, 5120, 0, 1, 1, 4, 50, 380, 400, 42949672960ull},
    {"Tesla T4", "t4", 7, 5, 2560, 256, 0, 0, 0, 3, 10, 70, 70, 16106127360ull},
};

typedef struct { int id, compute_instances; char profile[32]; } instance;
typedef struct {
    const model *model;
    double period, duty, pcie_rate;
    u64 energy_mj, pcie_start;
    double event_share[16];
    unsigned unknown_events;
    int fan, license; /* -1: none */
    int odd;
    int lost, instances;
    instance instance[INSTANCES];
} gpu;
typedef struct { int kind, id, code, gpu; } rule; /* kind: 'f' field value, 'g' GPM metric, 's' spin; code ALL: NaN */
typedef struct { char function[64]; int code, gpu, microseconds; } mood;
typedef struct { int id, gpu; u64 number; } answer;
typedef struct { int sequence, gpu, code; } xid;
typedef struct { int gpu; unsigned pid; u64 bytes; int percent; } process;

static struct {
    int gpus, frozen, logged, generation, rules, moods, xids, processes, answers;
    double ripple;
    gpu gpu[GPUS];
    rule rule[RULES];
    mood mood[RULES];
    answer answer[RULES];
    xid xid[EVENTS];
    process process[PROCESSES];
} now;

static struct { char name[64]; long calls; } counter[FUNCTIONS];
static int counters;
static device devices[GPUS], slices[GPUS][INSTANCES][COMPUTE_INSTANCES];
static double last_gpm[GPUS][INSTANCES + 1];
static atomic_int in_gpm;
static int initialised, born_generation, log_file = -1;
static double loaded;
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;

/* ---- time and shape ---- */

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double unix_now(void) { return seconds(CLOCK_REALTIME); }

/* The last moment at which a driver that works every `step` seconds refreshed its value. */
static double refreshed(double t, double step) { return floor(t / step + 1e-6) * step; }

/* Busy seconds from unix time 0 to t. */
static double busy_seconds(const gpu *g, double t) {
    double periods = floor(t / g->period), rest = t - periods * g->period, busy = g->duty * g->period;
    return periods * busy + (rest < busy ? rest : busy);
}

static double activity(const gpu *g, double from, double to) {
    unsigned step = (unsigned)llround(to * 60) * 2654435761u;
    double wave = 1 - now.ripple * (double)(step >> 8) / 16777216.0;
    return (busy_seconds(g, to) - busy_seconds(g, from)) / (to - from) * wave;
}

static double power_w(const gpu *g, double seconds_back) {
    double t = refreshed(unix_now(), 0.1);
    return g->model->idle_w + (g->model->busy_w - g->model->idle_w) * activity(g, t - seconds_back, t);
}

static u64 energy_mj(const gpu *g) {
    double t = refreshed(unix_now(), 0.1), busy = busy_seconds(g, t) - busy_seconds(g, loaded);
    return g->energy_mj + (u64)llround(1000 * (g->model->idle_w * (t - loaded) + (g->model->busy_w - g->model->idle_w) * busy));
}

/* ---- scenario ---- */

static int gpu_number(const char *word) { return word[0] == '*' ? ALL : atoi(word); }

#define EACH_GPU(g, which) for (int i_ = 0; i_ < GPUS; i_++) for (gpu *g = &now.gpu[i_]; g && ((which) == ALL || (which) == i_); g = NULL)

static void statement(char *line) {
    char *word[16] = {0}, *rest = NULL;
    int n = 0;
    line[strcspn(line, "#\n")] = 0;
    for (char *w = strtok_r(line, " \t", &rest); w && n < 16; w = strtok_r(NULL, " \t", &rest)) word[n++] = w;
    if (n < 2) return;
    int which = gpu_number(word[1]);
    if (!strcmp(word[0], "gpus")) now.gpus = atoi(word[1]);
    else if (!strcmp(word[0], "ripple")) now.ripple = atof(word[1]);
    else if (!strcmp(word[0], "frozen")) now.frozen = atoi(word[1]);
    else if (!strcmp(word[0], "log")) now.logged = atoi(word[1]);
    else if (!strcmp(word[0], "generation")) now.generation = atoi(word[1]);
    else if (!strcmp(word[0], "lost")) { EACH_GPU(g, which) g->lost = 1; }
    else if (!strcmp(word[0], "gpu") && n == 3) {
        for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++)
            if (!strcmp(MODELS[m].label, word[2])) EACH_GPU(g, which) g->model = &MODELS[m];
    } else if (!strcmp(word[0], "epoch") && n == 4) {
        EACH_GPU(g, which) { g->period = atof(word[2]); g->duty = atof(word[3]); }
    } else if (!strcmp(word[0], "energy") && n == 3) {
        EACH_GPU(g, which) g->energy_mj = strtoull(word[2], NULL, 10);
    } else if (!strcmp(word[0], "pcie") && n == 4) {
        EACH_GPU(g, which) { g->pcie_start = strtoull(word[2], NULL, 10); g->pcie_rate = atof(word[3]); }
    } else if (!strcmp(word[0], "mig")) {
        EACH_GPU(g, which) for (int w = 2; w < n && w < 2 + INSTANCES; w++) {
            instance *i = &g->instance[g->instances++];
            i->compute_instances = 1;
            sscanf(word[w], "%d:%31[^:]:%d", &i->id, i->profile, &i->compute_instances);
        }
    } else if (!strcmp(word[0], "fail") && n == 4 && now.moods < RULES) {
        mood *m = &now.mood[now.moods++];
        snprintf(m->function, sizeof m->function, "%s", word[1]);
        m->code = atoi(word[2]);
        m->gpu = gpu_number(word[3]);
    } else if (!strcmp(word[0], "slow") && n == 3 && now.moods < RULES) {
        mood *m = &now.mood[now.moods++];
        snprintf(m->function, sizeof m->function, "%s", word[1]);
        m->microseconds = atoi(word[2]);
    } else if (!strcmp(word[0], "hang") && n == 3 && now.moods < RULES) {
        mood *m = &now.mood[now.moods++];
        snprintf(m->function, sizeof m->function, "%s", word[1]);
        m->code = HANGS;
        m->gpu = gpu_number(word[2]);
    } else if (!strcmp(word[0], "spin") && n == 3 && now.rules < RULES) {
        now.rule[now.rules++] = (rule){'s', atoi(word[1]), atoi(word[2]), ALL};
    } else if ((!strcmp(word[0], "field") || !strcmp(word[0], "gpm")) && n == 4 && now.rules < RULES) {
        int code = strcmp(word[2], "nan") ? atoi(word[2]) : ALL;
        now.rule[now.rules++] = (rule){word[0][0], atoi(word[1]), code, gpu_number(word[3])};
    } else if (!strcmp(word[0], "value") && n == 4 && now.answers < RULES) {
        now.answer[now.answers++] = (answer){atoi(word[1]), gpu_number(word[3]), strtoull(word[2], NULL, 10)};
    } else if (!strcmp(word[0], "event") && n == 4) {
        EACH_GPU(g, gpu_number(word[3])) g->event_share[__builtin_ctz((unsigned)atoi(word[1]))] = atof(word[2]);
    } else if (!strcmp(word[0], "unknown_events") && n == 3) {
        EACH_GPU(g, gpu_number(word[2])) g->unknown_events = (unsigned)atoi(word[1]);
    } else if (!strcmp(word[0], "fan") && n == 3) {
        EACH_GPU(g, which) g->fan = atoi(word[2]);
    } else if (!strcmp(word[0], "odd") && n == 2) {
        EACH_GPU(g, which) g->odd = 1;
    } else if (!strcmp(word[0], "license") && n == 3) {
        EACH_GPU(g, which) g->license = atoi(word[2]);
    } else if (!strcmp(word[0], "xid") && n == 4 && now.xids < EVENTS) {
        now.xid[now.xids++] = (xid){atoi(word[1]), atoi(word[2]), atoi(word[3])};
    } else if (!strcmp(word[0], "pid") && n == 5 && now.processes < PROCESSES) {
        now.process[now.processes++] = (process){which, (unsigned)atoi(word[2]), strtoull(word[3], NULL, 10), atoi(word[4])};
    } else {
        fprintf(stderr, "nvml_stub: no such statement: %s\n", word[0]);
        abort();
    }
}

static void defaults(void) {
    memset(&now, 0, sizeof now);
    now.gpus = 2;
    /* A month at full power: float32 would no longer count. */
    EACH_GPU(g, ALL) *g = (gpu){.model = &MODELS[0], .period = 1, .duty = 1, .energy_mj = 5000000000000ull, .pcie_rate = 1e9, .fan = -1, .license = -1};
}

static u64 *delivered; /* counts shared by all processes that load this library */
enum {
    ENERGY, POWER, POWER_AVERAGE, UTILIZATION, MEMORY_UTILIZATION, CLOCKS, TEMPERATURE = CLOCKS + 2, MEMORY, GPM,
    READINGS_MAX = GPM + 512
};

static void share_counts(void) {
    const char *path = getenv("NVML_STUB_SCENARIO");
    char name[4200];
    snprintf(name, sizeof name, "%s.delivered", path ? path : "");
    int file = path ? open(name, O_RDWR) : -1;
    if (file < 0) return;
    void *counts = mmap(NULL, 2 * sizeof *delivered, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counts != MAP_FAILED) delivered = counts;
    close(file);
}

/* Read the scenario again when it was replaced; looked at no more often than once a millisecond. */
static void refresh(void) {
    static double looked = -1;
    static struct stat seen;
    static char seen_path[4096];
    double t = seconds(CLOCK_MONOTONIC);
    if (now.frozen || (t - looked < 1e-3 && looked >= 0)) return;
    pthread_mutex_lock(&reading);
    const char *path = getenv("NVML_STUB_SCENARIO");
    struct stat s = {0};
    int none = path == NULL || stat(path, &s) != 0;
    int same = looked >= 0 && !strcmp(seen_path, path ? path : "") && s.st_ino == seen.st_ino && s.st_size == seen.st_size &&
               s.st_mtim.tv_sec == seen.st_mtim.tv_sec && s.st_mtim.tv_nsec == seen.st_mtim.tv_nsec;
    if (looked < 0) {
        loaded = refreshed(unix_now(), 0.1);
        share_counts();
        for (int g = 0; g < GPUS; g++) {
            devices[g] = (device){g, -1, -1};
            for (int i = 0; i < INSTANCES; i++)
                for (int c = 0; c < COMPUTE_INSTANCES; c++) slices[g][i][c] = (device){g, i, c};
        }
    }
    if (!same) {
        defaults();
        if (none) now.gpu[1].model = &MODELS[2];
        FILE *file = none ? NULL : fopen(path, "r");
        char line[512];
        while (file && fgets(line, sizeof line, file)) statement(line);
        if (file) fclose(file);
        if (log_file >= 0) close(log_file);
        char log_name[4200];
        snprintf(log_name, sizeof log_name, "%s.log", path ? path : "");
        log_file = now.logged ? open(log_name, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
        seen = s;
        snprintf(seen_path, sizeof seen_path, "%s", path ? path : "");
    }
    looked = t;
    pthread_mutex_unlock(&reading);
}

static void violation(const char *what, const device *d, double milliseconds) {
    const char *path = getenv("NVML_STUB_SCENARIO");
    char name[4200];
    if (path == NULL) return;
    snprintf(name, sizeof name, "%s.violations", path);
    FILE *file = fopen(name, "a");
    if (file == NULL) return;
    fprintf(file, "%s gpu %d instance %d %.3f ms\n", what, d->gpu, d->instance, milliseconds);
    fclose(file);
}

/* Count a reading that is handed out: is it news, or what the caller had already? */
static void deliver(const device *d, int kind, double reading) {
    static double before[GPUS][READINGS_MAX];
    if (delivered == NULL || kind >= READINGS_MAX) return;
    if (before[d->gpu][kind] != reading) __atomic_fetch_add(&delivered[0], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&delivered[1], 1, __ATOMIC_RELAXED);
    before[d->gpu][kind] = reading;
}

static int hangs(const char *function, const device *d) {
    for (const mood *m = now.mood; d && m < now.mood + now.moods; m++)
        if (m->code == HANGS && m->gpu == d->gpu && !strcmp(m->function, function)) return 1;
    return 0;
}

/* What every call does first: count itself, take its time, and say how the GPU and the function are. */
static int enter(const char *function, const device *d, int *id) {
    refresh();
    if (*id < 0) {
        pthread_mutex_lock(&reading);
        for (*id = 0; *id < counters && strcmp(counter[*id].name, function); ++*id) {}
        if (*id == counters) snprintf(counter[counters++].name, sizeof counter[0].name, "%s", function);
        pthread_mutex_unlock(&reading);
    }
    counter[*id].calls++;
    for (; hangs(function, d); refresh()) nanosleep(&(struct timespec){0, 10000000L}, NULL);
    int code = initialised ? OK : UNINITIALIZED;
    for (const mood *m = now.mood; m < now.mood + now.moods; m++) {
        int all = m->function[0] == '*';
        if (!all && strcmp(m->function, function)) continue;
        if (m->microseconds) nanosleep(&(struct timespec){m->microseconds / 1000000, m->microseconds % 1000000 * 1000L}, NULL);
        else if (d ? m->gpu == ALL || m->gpu == d->gpu : m->gpu == ALL && !all) code = m->code;
    }
    if (log_file >= 0 && d) dprintf(log_file, "%.6f %s %d\n", unix_now(), function, d->gpu);
    if (initialised && born_generation != now.generation) return UNKNOWN;
    if (d && (d->gpu >= now.gpus || now.gpu[d->gpu].lost)) return LOST;
    return code;
}

#define ENTER_AS(name, d) do { static int id_ = -1; int code_ = enter(name, (d), &id_); if (code_ != OK) return code_; } while (0)
#define ENTER(d) ENTER_AS(__func__, d)
#define GPU(d) (&now.gpu[(d)->gpu])

long nvml_stub_calls(const char *function) {
    for (int i = 0; i < counters; i++)
        if (!strcmp(counter[i].name, function)) return counter[i].calls;
    return 0;
}

void nvml_stub_forget_calls(void) {
    for (int i = 0; i < counters; i++) counter[i].calls = 0;
}

/* ---- library and devices ---- */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    refresh();
    for (const mood *m = now.mood; m < now.mood + now.moods; m++)
        if (!strcmp(m->function, "nvmlInit")) return m->code;
    if (initialised++ == 0) born_generation = now.generation;
    return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return initialised ? (initialised--, OK) : UNINITIALIZED; }
const char *nvmlErrorString(int code) {
    return code == LOST ? "GPU is lost" : code == UNKNOWN ? "Unknown Error" : code == NOT_SUPPORTED ? "Not Supported" : "stub error";
}
int nvmlSystemGetDriverVersion(char *text, unsigned n) { ENTER(NULL); snprintf(text, n, "999.1"); return OK; }
int nvmlSystemGetNVMLVersion(char *text, unsigned n) { ENTER(NULL); snprintf(text, n, "12.999.1"); return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { ENTER(NULL); *version = 12080; return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { ENTER(NULL); *count = (unsigned)now.gpus; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **d) {
    if (index >= GPUS) return INVALID;
    ENTER(&devices[index]);
    if ((int)index >= now.gpus) return INVALID;
    *d = &devices[index];
    return OK;
}

static void uuid(const device *d, char *text, size_t n) {
    if (d->instance < 0) snprintf(text, n, "GPU-stub-%d", d->gpu);
    else snprintf(text, n, "MIG-stub-%d-%d-%d", d->gpu, GPU(d)->instance[d->instance].id, d->compute);
}

static device *by_uuid(const char *wanted) {
    char own[64];
    for (int g = 0; g < now.gpus; g++) {
        uuid(&devices[g], own, sizeof own);
        if (!strcmp(own, wanted)) return &devices[g];
        for (int i = 0; i < now.gpu[g].instances; i++)
            for (int c = 0; c < now.gpu[g].instance[i].compute_instances; c++) {
                uuid(&slices[g][i][c], own, sizeof own);
                if (!strcmp(own, wanted)) return &slices[g][i][c];
            }
    }
    return NULL;
}

int nvmlDeviceGetHandleByUUID(const char *wanted, device **d) {
    refresh();
    device *found = by_uuid(wanted);
    ENTER(found);
    if (found == NULL) return NOT_FOUND;
    *d = found;
    return OK;
}

int nvmlDeviceGetUUID(device *d, char *text, unsigned n) { ENTER(d); uuid(d, text, n); return OK; }
int nvmlDeviceGetIndex(device *d, unsigned *index) { ENTER(d); *index = (unsigned)d->gpu; return OK; }
int nvmlDeviceGetMinorNumber(device *d, unsigned *minor) { ENTER(d); *minor = (unsigned)d->gpu; return OK; }

int nvmlDeviceGetName(device *d, char *text, unsigned n) {
    ENTER(d);
    if (d->instance < 0) snprintf(text, n, "%s%s", GPU(d)->model->name, GPU(d)->odd ? " \xff\xfe" : "");
    else snprintf(text, n, "%s MIG %s", GPU(d)->model->name, GPU(d)->instance[d->instance].profile);
    return OK;
}

int nvmlDeviceGetSerial(device *d, char *text, unsigned n) {
    ENTER(d);
    snprintf(text, n, "165000000000%d%s", d->gpu, GPU(d)->odd ? "\xc3" : "");
    return OK;
}

int nvmlDeviceGetPciInfo_v3(device *d, void *pci) {
    struct { char legacy[16]; unsigned domain, bus, device, ids, subsystem; char bus_id[32]; } *p = pci;
    ENTER(d);
    memset(p, 0, sizeof *p);
    p->bus = (unsigned)d->gpu + 0x10;
    snprintf(p->legacy, sizeof p->legacy, "0000:%02X:00.0", p->bus);
    snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", p->bus);
    return OK;
}

/* ---- MIG ---- */

int nvmlDeviceGetMigMode(device *d, unsigned *current, unsigned *pending) {
    ENTER(d);
    if (d->instance >= 0) return INVALID;
    if (GPU(d)->model->major < 8) return NOT_SUPPORTED;
    *current = *pending = GPU(d)->instances > 0;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *count) {
    ENTER(d);
    *count = GPU(d)->instances ? 7 : 0;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **mig) {
    ENTER(d);
    for (int i = 0; i < GPU(d)->instances; i++)
        for (int c = 0; c < GPU(d)->instance[i].compute_instances; c++)
            if (index-- == 0) { *mig = &slices[d->gpu][i][c]; return OK; }
    return NOT_FOUND;
}

int nvmlDeviceGetAttributes_v2(device *d, unsigned *attributes) {
    ENTER(d);
    if (d->instance < 0) return NOT_SUPPORTED;
    attributes[0] = 16; /* multiprocessors */
    return OK;
}

int nvmlDeviceIsMigDeviceHandle(device *d, unsigned *is) { ENTER(d); *is = d->instance >= 0; return OK; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device *d, device **p) { ENTER(d); *p = &devices[d->gpu]; return OK; }

int nvmlDeviceGetGpuInstanceId(device *d, unsigned *id) {
    ENTER(d);
    if (d->instance < 0) return INVALID;
    *id = (unsigned)GPU(d)->instance[d->instance].id;
    return OK;
}

int nvmlDeviceGetComputeInstanceId(device *d, unsigned *id) {
    ENTER(d);
    if (d->instance < 0) return INVALID;
    *id = (unsigned)d->compute;
    return OK;
}

#define WHOLE_GPU(d) do { ENTER(d); if ((d)->instance >= 0) return NOT_SUPPORTED; } while (0)

/* ---- readings ---- */

static int told(int kind, int id, const device *d) {
    for (const rule *r = now.rule; r < now.rule + now.rules; r++)
        if (r->kind == kind && r->id == id && (r->gpu == ALL || r->gpu == d->gpu)) return r->code;
    return OK;
}

/* Burn as much CPU as the scenario says that field `id` costs. */
static void spin(int id, const device *d) {
    double end = seconds(CLOCK_THREAD_CPUTIME_ID) + told('s', id, d) * 1e-6;
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < end) {}
}

/* A counter of nanoseconds in which a clocks event reason held. */
static int event_time(const gpu *g, field *f, unsigned bit) {
    f->value.ull = (u64)llround(1e9 * g->event_share[__builtin_ctz(bit)] * (unix_now() - loaded));
    return g->unknown_events & bit ? NOT_SUPPORTED : OK;
}

static int field_value(const gpu *g, field *f) {
    int hopper = g->model->gpm;
    double busy = busy_seconds(g, unix_now()) - busy_seconds(g, loaded);
    f->valueType = UNSIGNED_LONG_LONG;
    f->value.ull = 0;
    switch (f->fieldId) {
    case 82: case 91: case 94: case 185: case 186: case 197: case 198: f->valueType = UNSIGNED_INT; break;
    case 269: case 270: case 271: if (!hopper) f->valueType = UNSIGNED_INT; break; /* an older driver: something else */
    default: break;
    }
    for (const answer *a = now.answer; a < now.answer + now.answers; a++)
        if (a->id == (int)f->fieldId && (a->gpu == ALL || &now.gpu[a->gpu] == g)) { f->value.ull = a->number; return OK; }
    switch (f->fieldId) {
    case 82: f->value.ui = 60; return OK;
    case 74: return event_time(g, f, 0x4);
    case 75: case 269: return event_time(g, f, 0x20);
    case 270: return event_time(g, f, 0x40);
    case 271: return event_time(g, f, 0x80);
    case 3: case 4: case 77: case 79: case 94: case 142: case 143: case 144: case 145: return OK;
    case 38: case 45: case 52: case 59: return hopper || !g->model->nvlink ? NOT_SUPPORTED : OK; /* totals */
    case 91: f->value.ui = 18; return hopper ? OK : NOT_SUPPORTED;
    case 161: case 162: case 163: return hopper && f->scopeId < 18 ? OK : NOT_SUPPORTED; /* by port */
    case 83: f->value.ull = energy_mj(g); return OK;
    case 186: f->value.ui = (unsigned)(1000 * power_w(g, 0.1)); return OK;
    case 185: f->value.ui = (unsigned)(1000 * power_w(g, 1)); return OK;
    case 197: f->value.ui = (unsigned)(g->pcie_start + (u64)(g->pcie_rate * busy)); return OK;
    case 198: f->value.ui = (unsigned)(g->pcie_start + (u64)(2 * g->pcie_rate * busy)); return OK;
    case 138: f->value.ull = (u64)(3e9 / 1024 * busy); return !g->model->nvlink || f->scopeId != ~0u ? NOT_SUPPORTED : OK;
    case 139: f->value.ull = (u64)(4e9 / 1024 * busy); return !g->model->nvlink || f->scopeId != ~0u ? NOT_SUPPORTED : OK;
    default: return INVALID;
    }
}

int nvmlDeviceGetFieldValues(device *d, int count, field *fields) {
    ENTER(d);
    for (field *f = fields; f < fields + count; f++) {
        int code = told('f', (int)f->fieldId, d);
        spin((int)f->fieldId, d);
        f->nvmlReturn = !GPU(d)->model->modern || d->instance >= 0 ? NOT_SUPPORTED : code != OK ? code : field_value(GPU(d), f);
        if (f->fieldId == 83) deliver(d, ENERGY, (double)f->value.ull);
        if (f->fieldId == 186) deliver(d, POWER, f->value.ui);
        if (f->fieldId == 185) deliver(d, POWER_AVERAGE, f->value.ui);
    }
    return OK;
}

int nvmlDeviceGetTotalEnergyConsumption(device *d, u64 *mj) { WHOLE_GPU(d); spin(83, d); *mj = energy_mj(GPU(d)); deliver(d, ENERGY, (double)*mj); return OK; }
int nvmlDeviceGetTemperature(device *d, int sensor, unsigned *c) { WHOLE_GPU(d); (void)sensor; *c = 55; deliver(d, TEMPERATURE, *c); return OK; }
int nvmlDeviceGetPowerUsage(device *d, unsigned *mw) {
    WHOLE_GPU(d);
    *mw = (unsigned)(1000 * power_w(GPU(d), GPU(d)->model->major * 10 + GPU(d)->model->minor <= 80 ? 0.1 : 1));
    deliver(d, POWER, *mw);
    return OK;
}

static unsigned percent(const gpu *g, double end, int memory) {
    return (unsigned)llround((memory ? 40 : 90) * activity(g, end - 1.0 / 6, end));
}

int nvmlDeviceGetUtilizationRates(device *d, unsigned *rates) {
    WHOLE_GPU(d);
    if (GPU(d)->instances) return NOT_SUPPORTED;
    double end = refreshed(unix_now(), 1.0 / 6);
    rates[0] = percent(GPU(d), end, 0);
    rates[1] = percent(GPU(d), end, 1);
    deliver(d, UTILIZATION, end);
    deliver(d, MEMORY_UTILIZATION, end);
    return OK;
}

int nvmlDeviceGetSamples(device *d, int type, u64 last_seen, int *value_type, unsigned *count, sample *samples) {
    enum { KEPT = 120 };
    WHOLE_GPU(d);
    if ((type != 1 && type != 2) || GPU(d)->instances) return NOT_SUPPORTED;
    *value_type = UNSIGNED_INT;
    if (samples == NULL) { *count = KEPT; return OK; }
    unsigned n = 0;
    long long newest = (long long)floor(unix_now() * 6 + 1e-6);
    for (long long step = newest - KEPT + 1; step <= newest && n < *count; step++) {
        u64 stamp = (u64)llround((double)step / 6 * 1e6);
        if (stamp <= last_seen) continue;
        samples[n].timeStamp = stamp;
        samples[n].value.ull = 0;
        samples[n++].value.ui = percent(GPU(d), (double)step / 6, type == 2);
        deliver(d, type == 2 ? MEMORY_UTILIZATION : UTILIZATION, (double)stamp);
    }
    *count = n;
    return n ? OK : NOT_FOUND;
}

int nvmlDeviceGetClockInfo(device *d, int kind, unsigned *mhz) {
    WHOLE_GPU(d);
    *mhz = kind == 1 ? 1980 : 3201;
    deliver(d, CLOCKS + (kind != 1), *mhz);
    return OK;
}

int nvmlDeviceGetMaxClockInfo(device *d, int kind, unsigned *mhz) { WHOLE_GPU(d); *mhz = kind == 1 ? 1980 : 3201; return OK; }

/* An instance has an eighth of the memory. */
static u64 memory_total(const device *d) { return GPU(d)->model->memory / (d->instance < 0 ? 1 : 8); }

int nvmlDeviceGetMemoryInfo(device *d, u64 *m) {
    ENTER(d);
    m[0] = memory_total(d); m[2] = m[0] / 4 + (1 << 20); m[1] = m[0] - m[2];
    deliver(d, MEMORY, (double)m[2]);
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(device *d, void *memory) {
    struct { unsigned version; u64 total, reserved, free, used; } *m = memory;
    ENTER(d);
    if (!GPU(d)->model->modern || m->version != 0x02000028) return VERSION_MISMATCH;
    m->total = memory_total(d); m->reserved = 1 << 20; m->used = m->total / 4; m->free = m->total - m->reserved - m->used;
    deliver(d, MEMORY, (double)m->used);
    return OK;
}

int nvmlDeviceGetBAR1MemoryInfo(device *d, u64 *m) {
    ENTER(d);
    if (!GPU(d)->model->modern) return NOT_SUPPORTED;
    m[0] = 256 << 20; m[1] = 200 << 20; m[2] = 56 << 20;
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor) {
    ENTER(d);
    *major = GPU(d)->model->major; *minor = GPU(d)->model->minor;
    return OK;
}

int nvmlDeviceGetNumGpuCores(device *d, unsigned *cores) { ENTER(d); *cores = (unsigned)GPU(d)->model->cores; return OK; }
int nvmlDeviceGetMemoryBusWidth(device *d, unsigned *bits) { WHOLE_GPU(d); *bits = (unsigned)GPU(d)->model->bus_width; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(device *d, unsigned *mw) { WHOLE_GPU(d); *mw = (unsigned)(1000 * GPU(d)->model->limit_w); return OK; }
int nvmlDeviceGetPowerManagementLimit(device *d, unsigned *mw) { WHOLE_GPU(d); *mw = (unsigned)(1000 * GPU(d)->model->limit_w); return OK; }
int nvmlDeviceGetTemperatureThreshold(device *d, int kind, unsigned *c) { WHOLE_GPU(d); *c = kind == 0 ? 92 : 87; return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(device *d, unsigned *lanes) { WHOLE_GPU(d); *lanes = 16; return OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(device *d, unsigned *gen) { WHOLE_GPU(d); *gen = 4; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(device *d, unsigned *gen) { WHOLE_GPU(d); *gen = (unsigned)GPU(d)->model->pcie; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(device *d, unsigned *lanes) { WHOLE_GPU(d); *lanes = 16; return OK; }
int nvmlDeviceGetFanSpeed(device *d, unsigned *speed) {
    WHOLE_GPU(d);
    *speed = (unsigned)GPU(d)->fan;
    return GPU(d)->fan < 0 ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetPerformanceState(device *d, unsigned *state) { WHOLE_GPU(d); *state = 0; return OK; }
int nvmlDeviceGetComputeMode(device *d, unsigned *mode) { WHOLE_GPU(d); *mode = 0; return OK; }
int nvmlDeviceGetPersistenceMode(device *d, unsigned *mode) { WHOLE_GPU(d); *mode = 1; return OK; }
int nvmlDeviceGetEncoderUtilization(device *d, unsigned *u, unsigned *us) { WHOLE_GPU(d); *u = 20; *us = 166666; return OK; }
int nvmlDeviceGetDecoderUtilization(device *d, unsigned *u, unsigned *us) { WHOLE_GPU(d); *u = 30; *us = 166666; return OK; }

int nvmlDeviceGetSupportedClocksEventReasons(device *d, u64 *bits) { WHOLE_GPU(d); *bits = 0x1ff & ~GPU(d)->unknown_events; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(device *d, u64 *bits) {
    WHOLE_GPU(d);
    *bits = 0;
    for (int b = 0; b < 16; b++) *bits |= (u64)(GPU(d)->event_share[b] > 0) << b;
    return OK;
}
int nvmlDeviceGetSupportedClocksThrottleReasons(device *d, u64 *bits) { return nvmlDeviceGetSupportedClocksEventReasons(d, bits); }
int nvmlDeviceGetCurrentClocksThrottleReasons(device *d, u64 *bits) { return nvmlDeviceGetCurrentClocksEventReasons(d, bits); }

int nvmlDeviceGetGridLicensableFeatures_v4(device *d, void *features) {
    struct {
        int supported;
        unsigned count;
        struct { unsigned code, state; char info[128], product[128]; unsigned enabled, expiry[4]; } feature[3];
    } *f = features;
    WHOLE_GPU(d);
    memset(f, 0, sizeof *f);
    f->supported = GPU(d)->license >= 0;
    f->count = 2;
    f->feature[0].state = 7; /* of a feature that is off */
    f->feature[1].enabled = 1;
    f->feature[1].state = (unsigned)GPU(d)->license;
    return OK;
}

int nvmlDeviceGetPcieThroughput(device *d, int direction, unsigned *kib) {
    WHOLE_GPU(d);
    nanosleep(&(struct timespec){0, 20000000}, NULL); /* as the true one */
    *kib = direction ? 2000000 : 1000000;
    return OK;
}

/* ---- GPM ---- */

int nvmlGpmQueryDeviceSupport(device *d, void *support) {
    struct { unsigned version, supported; } *s = support;
    ENTER(d);
    if (s->version != 1) return VERSION_MISMATCH;
    s->supported = (unsigned)GPU(d)->model->gpm;
    return OK;
}

int nvmlGpmSampleAlloc(gpm_sample **s) { ENTER(NULL); *s = calloc(1, sizeof **s); return *s ? OK : UNKNOWN; }
int nvmlGpmSampleFree(gpm_sample *s) { ENTER(NULL); free(s); return OK; }

/* Run `call` as the only GPM call at this time, or tell of it. */
#define ALONE(d, call) do { \
        if (atomic_fetch_add(&in_gpm, 1) > 0) violation("concurrent", (d), 0); \
        int code_ = (call); \
        atomic_fetch_sub(&in_gpm, 1); \
        return code_; \
    } while (0)

static int gpm_take(const device *d, gpm_sample *s) {
    double t = seconds(CLOCK_MONOTONIC), *before = &last_gpm[d->gpu][d->instance + 1];
    if (*before > 0 && t - *before < 0.1) violation("spacing", d, 1000 * (t - *before));
    *before = t;
    *s = (gpm_sample){refreshed(unix_now(), 0.1), d->gpu, d->instance};
    return OK;
}

static int gpm_sample_get(device *d, gpm_sample *s) {
    ENTER_AS("nvmlGpmSampleGet", d);
    return GPU(d)->model->gpm && d->instance < 0 ? gpm_take(d, s) : NOT_SUPPORTED;
}

static int gpm_mig_sample_get(device *d, unsigned id, gpm_sample *s) {
    ENTER_AS("nvmlGpmMigSampleGet", d);
    if (!GPU(d)->model->gpm) return NOT_SUPPORTED;
    for (int i = 0; i < GPU(d)->instances; i++)
        if ((unsigned)GPU(d)->instance[i].id == id) return gpm_take(&slices[d->gpu][i][0], s);
    return NOT_FOUND;
}

int nvmlGpmSampleGet(device *d, gpm_sample *s) { ALONE(d, gpm_sample_get(d, s)); }
int nvmlGpmMigSampleGet(device *d, unsigned id, gpm_sample *s) { ALONE(d, gpm_mig_sample_get(d, id, s)); }

/* Per cent, MiB/s from 20 on: what a busy GPU gives. */
static double gpm_busy(unsigned id) {
    switch (id) {
    case 1: return 95; case 2: return 85; case 3: return 45; case 5: return 60; case 10: return 40; case 11: return 1;
    case 12: return 20; case 13: return 5; case 20: return 1000; case 21: return 2000; case 60: return 4000; case 61: return 3000;
    default: return -1;
    }
}

static int gpm_metrics_get(device *d, gpm_query *q) {
    ENTER_AS("nvmlGpmMetricsGet", d);
    double from = q->older->unix_time, to = q->newer->unix_time;
    for (gpm_metric *m = q->metrics; m < q->metrics + q->count; m++) {
        double busy = gpm_busy(m->id);
        int code = told('g', (int)m->id, d);
        m->code = code == ALL ? OK : code;
        m->value = code == ALL ? (double)NAN : busy * (to > from ? activity(GPU(d), from, to) : 0);
        if (busy < 0 || (q->newer->instance >= 0 && m->id >= 20)) m->code = NOT_SUPPORTED;
        if (from == 0) m->code = INVALID; /* never taken */
        if (m->code == OK) deliver(d, GPM + (int)m->id, m->value);
    }
    return OK;
}

int nvmlGpmMetricsGet(gpm_query *q) {
    if (q->version != 1 || q->older == NULL || q->newer == NULL) return INVALID;
    device *d = &devices[q->newer->gpu];
    ALONE(d, gpm_metrics_get(d, q));
}

/* ---- events ---- */

static int newest_xid(void) {
    int newest = 0;
    for (int i = 0; i < now.xids; i++) newest = now.xid[i].sequence > newest ? now.xid[i].sequence : newest;
    return newest;
}

int nvmlEventSetCreate(event_set **set) {
    ENTER(NULL);
    *set = calloc(1, sizeof **set);
    if (*set == NULL) return UNKNOWN;
    (*set)->told = newest_xid();
    return OK;
}
int nvmlEventSetFree(event_set *set) { ENTER(NULL); free(set); return OK; }
int nvmlDeviceRegisterEvents(device *d, u64 types, event_set *set) {
    WHOLE_GPU(d);
    if (types != 8) return NOT_SUPPORTED;
    set->gpus |= 1u << d->gpu;
    return OK;
}

int nvmlEventSetWait_v2(event_set *set, event *e, unsigned milliseconds) {
    ENTER(NULL);
    const xid *next = NULL;
    for (const xid *x = now.xid; x < now.xid + now.xids; x++)
        if (x->sequence > set->told && (set->gpus >> x->gpu & 1) && (!next || x->sequence < next->sequence)) next = x;
    if (next == NULL) {
        nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L}, NULL);
        return TIMEOUT;
    }
    set->told = next->sequence;
    *e = (event){&devices[next->gpu], 8, (u64)next->code, ~0u, ~0u};
    return OK;
}

/* ---- processes ---- */

int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *count, void *processes) {
    struct { unsigned pid; u64 bytes; unsigned instance, compute; } *list = processes;
    ENTER(d);
    unsigned n = 0, room = list ? *count : 0;
    for (const process *p = now.process; p < now.process + now.processes; p++) {
        if (p->gpu != d->gpu && p->gpu != ALL) continue;
        if (n < room) { list[n].pid = p->pid; list[n].bytes = p->bytes; list[n].instance = list[n].compute = ~0u; }
        n++;
    }
    *count = n;
    return n > room ? INSUFFICIENT_SIZE : OK;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(device *d, unsigned *count, void *processes) {
    (void)processes;
    ENTER(d);
    *count = 0;
    return OK;
}

int nvmlDeviceGetProcessUtilization(device *d, void *samples, unsigned *count, u64 last_seen) {
    struct { unsigned pid; u64 time; unsigned sm, memory, encoder, decoder; } *list = samples;
    ENTER(d);
    unsigned n = 0, room = list ? *count : 0;
    u64 stamp = (u64)(refreshed(unix_now(), 1.0 / 6) * 1e6);
    for (const process *p = now.process; p < now.process + now.processes && stamp > last_seen; p++) {
        if (p->gpu != d->gpu && p->gpu != ALL) continue;
        if (n < room) {
            memset(&list[n], 0, sizeof list[n]);
            list[n].pid = p->pid; list[n].time = stamp; list[n].sm = (unsigned)p->percent;
        }
        n++;
    }
    *count = n;
    if (n == 0) return NOT_FOUND;
    return n > room ? INSUFFICIENT_SIZE : OK;
}
