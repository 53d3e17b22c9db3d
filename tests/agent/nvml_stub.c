/* A small libnvidia-ml.so.1: two GPUs, enough of nvml.h's functions and structures for the agent's NVML source.
 *
 * GPU 0 is a Hopper card that gives everything; GPU 1 is a Turing card on an old driver: no field values, no BAR1 and no
 * version 2 of the memory call. Files in $NVML_STUB_DIR change its mood while a test runs:
 *   lost-N    GPU N is lost        blank-N   GPU N's utilisation has no data        empty    no GPU at all
 * nvmlDeviceGetNumGpuCores is left out on purpose: an old driver lacks symbols.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, LOST = 15, NO_DATA = 21, VERSION_MISMATCH = 25 };
enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 };
enum { GPUS = 2 };

typedef struct { int index; } device;
typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType, nvmlReturn;
    union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; } value;
} field;

static device devices[GPUS] = {{0}, {1}};
static int initialised;
static unsigned long long energy_mj = 5000000000000ull; /* a month at full power: float32 would no longer count */

static int mood(const char *name, int index) {
    const char *folder = getenv("NVML_STUB_DIR");
    char path[4096];
    if (folder == NULL) return 0;
    if (index < 0) snprintf(path, sizeof path, "%s/%s", folder, name);
    else snprintf(path, sizeof path, "%s/%s-%d", folder, name, index);
    return access(path, F_OK) == 0;
}

static int state(const device *d) {
    if (!initialised) return UNINITIALIZED;
    return mood("lost", d->index) ? LOST : OK;
}

#define ALIVE(d) do { int s = state(d); if (s != OK) return s; } while (0)

int nvmlInitWithFlags(unsigned flags) { (void)flags; initialised = 1; return OK; }
int nvmlShutdown(void) { if (!initialised) return UNINITIALIZED; initialised = 0; return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "stub error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned n) { snprintf(text, n, "999.1"); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = mood("empty", -1) ? 0 : GPUS; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **d) {
    if (index >= GPUS) return INVALID;
    *d = &devices[index];
    return state(*d);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device **d) {
    for (int i = 0; i < GPUS; i++) {
        char own[32];
        snprintf(own, sizeof own, "GPU-stub-%d", i);
        if (strcmp(own, uuid) == 0) { *d = &devices[i]; return state(*d); }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetName(device *d, char *text, unsigned n) {
    ALIVE(d);
    snprintf(text, n, "%s", d->index ? "Tesla T4" : "NVIDIA H200");
    return OK;
}

int nvmlDeviceGetUUID(device *d, char *text, unsigned n) { ALIVE(d); snprintf(text, n, "GPU-stub-%d", d->index); return OK; }

int nvmlDeviceGetFieldValues(device *d, int count, field *fields) {
    ALIVE(d);
    for (int i = 0; i < count; i++) {
        field *f = &fields[i];
        f->nvmlReturn = OK;
        if (d->index == 1) f->nvmlReturn = NOT_SUPPORTED;
        else if (f->fieldId == 83) { f->valueType = UNSIGNED_LONG_LONG; f->value.ull = energy_mj += 65000; }
        else if (f->fieldId == 186) { f->valueType = UNSIGNED_INT; f->value.ui = 650000; }
        else if (f->fieldId == 185) { f->valueType = UNSIGNED_INT; f->value.ui = 600000; }
        else f->nvmlReturn = INVALID;
    }
    return OK;
}

int nvmlDeviceGetTotalEnergyConsumption(device *d, unsigned long long *mj) { ALIVE(d); *mj = 1500; return OK; }
int nvmlDeviceGetPowerUsage(device *d, unsigned *mw) { ALIVE(d); *mw = 70000; return OK; }
int nvmlDeviceGetTemperature(device *d, int sensor, unsigned *c) { ALIVE(d); (void)sensor; *c = 55; return OK; }

int nvmlDeviceGetUtilizationRates(device *d, unsigned *rates) {
    ALIVE(d);
    if (mood("blank", d->index)) return NO_DATA;
    rates[0] = 87;
    rates[1] = 12;
    return OK;
}

int nvmlDeviceGetClockInfo(device *d, int kind, unsigned *mhz) { ALIVE(d); *mhz = kind == 1 ? 1980 : 3201; return OK; }
int nvmlDeviceGetMaxClockInfo(device *d, int kind, unsigned *mhz) { ALIVE(d); *mhz = kind == 1 ? 1980 : 3201; return OK; }

int nvmlDeviceGetMemoryInfo(device *d, unsigned long long *m) { ALIVE(d); m[0] = 1000; m[1] = 600; m[2] = 400; return OK; }

int nvmlDeviceGetMemoryInfo_v2(device *d, void *memory) {
    struct { unsigned version; unsigned long long total, reserved, free, used; } *m = memory;
    ALIVE(d);
    if (d->index == 1 || m->version != 0x02000028) return VERSION_MISMATCH;
    m->total = 1000; m->reserved = 100; m->free = 600; m->used = 300;
    return OK;
}

int nvmlDeviceGetBAR1MemoryInfo(device *d, unsigned long long *m) {
    ALIVE(d);
    if (d->index == 1) return NOT_SUPPORTED;
    m[0] = 256; m[1] = 200; m[2] = 56;
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(device *d, int *major, int *minor) {
    ALIVE(d);
    *major = d->index ? 7 : 9;
    *minor = d->index ? 5 : 0;
    return OK;
}

int nvmlDeviceGetMemoryBusWidth(device *d, unsigned *bits) { ALIVE(d); *bits = 6144; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(device *d, unsigned *mw) { ALIVE(d); *mw = 700000; return OK; }
int nvmlDeviceGetTemperatureThreshold(device *d, int kind, unsigned *c) { ALIVE(d); *c = kind == 0 ? 92 : 87; return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(device *d, unsigned *lanes) { ALIVE(d); *lanes = 16; return OK; }
