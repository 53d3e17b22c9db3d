/* A small libcuda.so.1: two GPUs and what cuda.h gives of them without a context.
 *
 * GPU 0 is an H200, GPU 1 a T4 on whose driver some attributes are unknown. Their UUIDs are
 * GPU-00000000-0000-0000-0000-00000000000N. Files in the folder $LD_LIBRARY_PATH (one folder), where the library lies itself,
 * change its mood:
 *   hang         cuInit does not come back        no-device    cuInit finds no GPU
 *   lost-N       GPU N does not answer            mig          GPU 0 shows one instance: its own UUID, fewer SMs
 * There is no function that makes a context: calling one would fail.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 1, UNINITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, UNKNOWN = 999 };
enum { GPUS = 2 };

static int initialised;

static int mood(const char *name) {
    const char *folder = getenv("LD_LIBRARY_PATH");
    char path[4096];
    if (folder == NULL) return 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static int answer(int device) {
    char lost[16];
    if (!initialised) return UNINITIALIZED;
    if (device < 0 || device >= GPUS) return INVALID_DEVICE;
    snprintf(lost, sizeof lost, "lost-%d", device);
    return mood(lost) ? UNKNOWN : OK;
}

#define ANSWERS(device) do { int code = answer(device); if (code != OK) return code; } while (0)

int cuInit(unsigned flags) {
    if (flags != 0) return INVALID;
    while (mood("hang")) usleep(10000);
    if (mood("no-device")) return NO_DEVICE;
    initialised = 1;
    return OK;
}

int cuGetErrorString(int code, const char **text) {
    *text = code == NO_DEVICE ? "no CUDA-capable device is detected" : code == UNKNOWN ? "unknown error" : NULL;
    return *text == NULL ? INVALID : OK;
}

int cuDeviceGetCount(int *count) {
    if (!initialised) return UNINITIALIZED;
    *count = GPUS;
    return OK;
}

int cuDeviceGet(int *device, int ordinal) {
    ANSWERS(ordinal);
    *device = ordinal;
    return OK;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    ANSWERS(device);
    memset(uuid, 0, 16);
    uuid[15] = (unsigned char)device;
    if (device == 0 && mood("mig")) uuid[0] = 0xaa;
    return OK;
}

int cuDeviceGetPCIBusId(char *text, int length, int device) {
    ANSWERS(device);
    snprintf(text, (size_t)length, "0000:%02X:00.0", 0x10 + device);
    return OK;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    ANSWERS(device);
    *bytes = device == 0 ? 150000000000ul : 15800000000ul;
    return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    static const struct { int attribute, h200, t4; } table[] = {
        {13, 1980000, 1590000}, {16, 132, 40},        {36, 3201000, 5001000}, {37, 6144, 256}, {38, 62914560, 4194304},
        {39, 2048, 1024},       {40, 3, 3},           {75, 9, 7},             {76, 0, 5},      {81, 233472, 65536},
        {87, 2, 32},            {97, 232448, 65536},  {106, 32, 0},
    };
    ANSWERS(device);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].attribute != attribute) continue;
        if (device == 1 && attribute == 106) return INVALID; /* an older driver's */
        *value = device == 0 ? table[i].h200 : table[i].t4;
        if (device == 0 && attribute == 16 && mood("mig")) *value = 16;
        return OK;
    }
    return INVALID;
}
