// Runs frozen_stage.cu on a CPU. Each thread of a program is a context of its own; one runs until it must wait for
// others of its warp or program. Instructions of a warp take the numbers of all its threads, as PTX's manual has them.

#include <setjmp.h>
#include <ucontext.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#define EMULATED
#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct uint4 { unsigned x, y, z, w; };
struct dim3 { int x = 0, y = 0, z = 0; };
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
alignas(128) uint4 memory[227 * 1024 / 16];
static dim3 threadIdx, blockIdx, gridDim;

static constexpr int ALL = 512;
static ucontext_t contexts[ALL];  // that threads begin in; later they go on by jumps, which call no system
static jmp_buf scheduler, places[ALL];
static bool begun[ALL], ended[ALL];
struct Meeting { int size, arrived = 0, times = 0; };
static Meeting everyone{ALL}, warps[ALL / 32];

static void let_others_run() {
    if (_setjmp(places[threadIdx.x]) == 0) _longjmp(scheduler, 1);
}

static void run_thread(int i) {
    threadIdx.x = i;
    if (_setjmp(scheduler) != 0) return;
    if (begun[i]) _longjmp(places[i], 1);
    begun[i] = true;
    setcontext(&contexts[i]);
}

static void meet(Meeting& meeting) {
    const int before = meeting.times;
    if (++meeting.arrived == meeting.size) meeting.arrived = 0, meeting.times++;
    while (meeting.times == before) let_others_run();
}

static void __syncthreads() { meet(everyone); }
static float __uint_as_float(unsigned bits) { float value; memcpy(&value, &bits, 4); return value; }
static unsigned bits_of(float value) { unsigned bits; memcpy(&bits, &value, 4); return bits; }

static unsigned held[ALL][6];  // what the threads bring to an instruction of their warp

template <typename Result>
static void together(std::initializer_list<unsigned> mine, Result result) {
    Meeting& warp = warps[threadIdx.x / 32];
    int i = 0;
    for (unsigned word : mine) held[threadIdx.x][i++] = word;
    meet(warp);
    result(held + threadIdx.x / 32 * 32, threadIdx.x % 32);
    meet(warp);
}

static unsigned shared_address(const void* place) { return (unsigned)((const char*)place - (const char*)memory); }

static void load_pixels(unsigned (&a)[4], unsigned from) {
    together({from}, [&](unsigned (*all)[6], int lane) {
        for (int m = 0; m < 4; m++) memcpy(&a[m], (char*)memory + all[m * 8 + lane / 4][0] + lane % 4 * 4, 4);
    });
}

static float half_of(unsigned word, int upper) { return __uint_as_float(upper ? word & 0xffff0000u : word << 16); }

static void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    together({a[0], a[1], a[2], a[3], b0, b1}, [&](unsigned (*all)[6], int lane) {
        for (int i = 0; i < 4; i++) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            for (int k = 0; k < 16; k++) {
                const unsigned left = all[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
                const unsigned right = all[column * 4 + k % 8 / 2][4 + k / 8];
                sum[i] += half_of(left, k % 2) * half_of(right, k % 2);
            }
        }
    });
}

static float positive(float value) { return value <= 0.0f ? 0.0f : value; }
static unsigned rounded(float value) {
    const unsigned bits = bits_of(value);
    return value != value ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}
static unsigned pair_of(float low, float high) { return rounded(low) | rounded(high) << 16; }

// what is copied ahead arrives as late as it may
struct Copy { unsigned to; const void* from; };
static std::vector<Copy> copies[ALL];
static void copy_ahead(unsigned to, const void* from) { copies[threadIdx.x].push_back({to, from}); }
static void wait_for_copies() {
    for (const Copy& copy : copies[threadIdx.x]) memcpy((char*)memory + copy.to, copy.from, 16);
    copies[threadIdx.x].clear();
}

#include "frozen_stage.cu"

static const uint4 *given, *weights;
static const float* biases;
static unsigned* bits;
static uint4* result;
static int images, convolutions, channels, back;

static void one_thread() {
    auto kernel = channels == 16 ? (back ? &frozen_stage<16, 4, true> : &frozen_stage<16, 4, false>)
                : channels == 32 ? (back ? &frozen_stage<32, 4, true> : &frozen_stage<32, 4, false>)
                                 : (back ? &frozen_stage<64, 2, true> : &frozen_stage<64, 2, false>);
    kernel(given, weights, biases, bits, result, images, convolutions);
    ended[threadIdx.x] = true;
    let_others_run();
}

extern "C" void run(int channels_, int back_, const void* x, const void* w, const void* bias, void* kept, void* out,
                    int images_, int convolutions_) {
    channels = channels_, back = back_, images = images_, convolutions = convolutions_;
    given = (const uint4*)x, weights = (const uint4*)w, biases = (const float*)bias;
    bits = (unsigned*)kept, result = (uint4*)out;
    for (Meeting& warp : warps) warp = {32};
    constexpr size_t STACK = 1 << 16;
    static std::vector<char> stacks(ALL * STACK);
    gridDim.x = (images + 1) / 2;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
        memset(memory, 0xff, sizeof memory);  // bfloat16's NaN: whoever reads what nobody wrote is found out
        for (int i = 0; i < ALL; i++) {
            begun[i] = ended[i] = false;
            getcontext(&contexts[i]);
            contexts[i].uc_stack.ss_sp = &stacks[i * STACK], contexts[i].uc_stack.ss_size = STACK;
            makecontext(&contexts[i], one_thread, 0);
        }
        for (bool busy = true; busy;) {
            busy = false;
            for (int i = ALL - 1; i >= 0; i--)
                if (!ended[i]) busy = true, run_thread(i);
        }
    }
}
