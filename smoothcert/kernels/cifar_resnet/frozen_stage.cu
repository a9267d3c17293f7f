// All residual blocks of a stage of a CIFAR ResNet in one kernel: x -> relu(x + conv2(relu(conv1(x)))) with frozen
// parameters, in bfloat16, or the gradient of x from that of the result. frozen_stage.py compiles and launches it.
//
// An attack's batch is small: one kernel for each convolution spends its time on waiting for memory. Here a program
// keeps two images in shared memory through all convolutions of the stage. Of each result it writes one bit to global
// memory: whether the ReLU lets it pass, which is all that the gradient needs to know.
//
// Images in shared memory have a border of zeros, one pixel wide, and their channels in pieces of 8 (16 bytes). Pieces
// of a pixel are exchanged with each other (`piece_at`) such that 8 neighbouring pixels, which an instruction reads at
// once, are in different banks. Rows are a multiple of 8 pixels apart, so that what lies below a piece is at a distance
// that the compiler knows.
//
// A product is pixels [16, 16 channels] times weights [16 channels, 8 outputs] (mma.m16n8k16). The 16 pixels lie side
// by side in a row, in a row of both images if they are 8 wide. A warp computes a unit: 16 outputs of ROWS such
// sixteens, one below the other. For each column of taps it loads ROWS + 2 of them, which serve all three rows of taps.

typedef unsigned int u32;

constexpr int THREADS = 512;
constexpr int WARPS = THREADS / 32;

#ifndef EMULATED  // tests run this file on a CPU, with these functions written in C++
__device__ __forceinline__ void load_pixels(u32 (&a)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(from) : "memory");
}

__device__ __forceinline__ void multiply(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ u32 pair_of(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

__device__ __forceinline__ float positive(float value) {  // what is not a number stays so, as in PyTorch
    float found;
    asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(found) : "f"(value));
    return found;
}

__device__ __forceinline__ u32 shared_address(const void* place) { return (u32)__cvta_generic_to_shared(place); }

__device__ __forceinline__ void copy_ahead(u32 to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" : : : "memory"); }
#endif

__device__ __forceinline__ float low_of(u32 both) { return __uint_as_float(both << 16); }
__device__ __forceinline__ float high_of(u32 both) { return __uint_as_float(both & 0xffff0000u); }

template <int CHANNELS, int ROWS>
struct Stage {
    static constexpr int SIDE = 512 / CHANNELS, PITCH = (SIDE + 2 + 7) / 8 * 8;
    static constexpr int PIECES = CHANNELS / 8, SIXTEENS = CHANNELS / 16;  // of channels
    static constexpr int ROW = PITCH * PIECES, IMAGE = (SIDE + 2) * ROW;   // pieces of images with their borders
    static constexpr int WEIGHTS = 9 * CHANNELS * PIECES;                  // pieces of a convolution's weights
    static constexpr int ACROSS = 2 * SIDE / 16, DOWN = SIDE / ROWS;
    static constexpr int UNITS = ACROSS * DOWN * SIXTEENS;

    static __device__ __forceinline__ int piece_at(int image, int pixel, int piece) {
        return image * IMAGE + pixel * PIECES + (piece ^ (pixel / (8 / PIECES) % PIECES));
    }
};

template <int CHANNELS, int ROWS, bool BACK>
__global__ void __launch_bounds__(THREADS, 1) frozen_stage(
    const uint4* source,   // [images, SIDE, SIDE, CHANNELS]
    const uint4* weights,  // [convolutions, WEIGHTS], as `arrangement` in frozen_stage.py has them
    const float* bias,     // [convolutions, CHANNELS]; not read if BACK
    u32* bits,             // [convolutions, programs, UNITS, 32]: written, or read if BACK
    uint4* target,
    int images,
    int convolutions) {
    using S = Stage<CHANNELS, ROWS>;
    extern __shared__ uint4 memory[];
    uint4* const ahead = memory + 4 * S::IMAGE;  // two convolutions' weights
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int first = blockIdx.x * 2;

    for (int i = thread; i < 4 * S::IMAGE; i += THREADS) memory[i] = make_uint4(0, 0, 0, 0);
    const uint4* next = weights + (BACK ? (size_t)(convolutions - 1) * S::WEIGHTS : 0);
    for (int i = thread; i < S::WEIGHTS; i += THREADS) copy_ahead(shared_address(ahead + i), next + i);
    __syncthreads();
    constexpr int VALUES = S::SIDE * S::SIDE * S::PIECES;  // of an image, in pieces
    for (int i = thread; i < 2 * VALUES; i += THREADS) {
        const int image = i / VALUES, pixel = i % VALUES / S::PIECES, piece = i % S::PIECES;
        const int at = (pixel / S::SIDE + 1) * S::PITCH + pixel % S::SIDE + 1;
        if (first + image < images) memory[S::piece_at(image, at, piece)] = source[(size_t)first * VALUES + i];
    }
    wait_for_copies();
    __syncthreads();

    for (int step = 0; step < convolutions; step++) {
        const int number = BACK ? convolutions - 1 - step : step;
        const uint4* const from = memory + (step % 2 ? 2 * S::IMAGE : 0);
        u32* const to = (u32*)(memory + (step % 2 ? 0 : 2 * S::IMAGE));
        const uint4* const taps = ahead + step % 2 * S::WEIGHTS;
        if (step + 1 < convolutions) {
            next = BACK ? next - S::WEIGHTS : next + S::WEIGHTS;
            uint4* const room = ahead + (step + 1) % 2 * S::WEIGHTS;
            for (int i = thread; i < S::WEIGHTS; i += THREADS) copy_ahead(shared_address(room + i), next + i);
        }
        for (int unit = warp; unit < S::UNITS; unit += WARPS) {
            const int group = unit % S::SIXTEENS, across = unit / S::SIXTEENS % S::ACROSS;
            const int y = unit / S::SIXTEENS / S::ACROSS * ROWS;
            // bits of the result itself, or in the gradient of what the convolution was applied to
            const int which = BACK ? number - 1 : number;
            u32* const word = bits + (((size_t)which * gridDim.x + blockIdx.x) * S::UNITS + unit) * 32 + lane;
            const u32 passed = BACK && number > 0 ? *word : 0xffffffffu;
            float offset[2][2] = {};
            if (!BACK)
                for (int half = 0; half < 2; half++)
                    for (int k = 0; k < 2; k++)
                        offset[half][k] = bias[number * CHANNELS + group * 16 + half * 8 + lane % 4 * 2 + k];

            float sums[ROWS][2][4] = {};
            const int column = across * 16 + lane % 16;
            for (int sixteen = 0; sixteen < S::SIXTEENS; sixteen++) {
#pragma unroll
                for (int dx = 0; dx < 3; dx++) {
                    u32 a[ROWS + 2][4];
                    const int pixel = y * S::PITCH + column % S::SIDE + dx;
                    const int at = S::piece_at(column / S::SIDE, pixel, sixteen * 2 + lane / 16);
#pragma unroll
                    for (int line = 0; line < ROWS + 2; line++)
                        load_pixels(a[line], shared_address(from + at) + line * S::ROW * 16);
#pragma unroll
                    for (int dy = 0; dy < 3; dy++) {
                        const uint4 b = taps[(((sixteen * 3 + dx) * 3 + dy) * S::SIXTEENS + group) * 32 + lane];
#pragma unroll
                        for (int row = 0; row < ROWS; row++) {
                            multiply(sums[row][0], a[row + dy], b.x, b.y);
                            multiply(sums[row][1], a[row + dy], b.z, b.w);
                        }
                    }
                }
            }

            // Results are in pairs of neighbouring channels, of pixels lane / 4 of the sixteen and of those 8 further on.
            // Where they go, in `to`: the first 8 of the unit's outputs, then, by one bit, the others.
            int places[2][2];
            for (int upper = 0; upper < 2; upper++) {
                const int column = across * 16 + upper * 8 + lane / 4;
                const int pixel = (y + 1) * S::PITCH + column % S::SIDE + 1;
                places[upper][0] = S::piece_at(column / S::SIDE, pixel, group * 2) * 4 + lane % 4;
                places[upper][1] = places[upper][0] ^ 4;
            }
            u32 others[2][ROWS][2];  // the shortcut, or its gradient
            if (step % 2)
                for (int upper = 0; upper < 2; upper++)
                    for (int row = 0; row < ROWS; row++)
                        for (int half = 0; half < 2; half++)
                            others[upper][row][half] = to[places[upper][half] + row * S::ROW * 4];
            u32 passes = 0;
#pragma unroll
            for (int upper = 0; upper < 2; upper++) {
#pragma unroll
                for (int row = 0; row < ROWS; row++) {
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        float one = sums[row][half][upper * 2] + offset[half][0];
                        float two = sums[row][half][upper * 2 + 1] + offset[half][1];
                        if (step % 2) {
                            one += low_of(others[upper][row][half]);
                            two += high_of(others[upper][row][half]);
                        }
                        const int bit = (upper * ROWS + row) * 2 + half;  // and 16 + bit, of the second channel
                        u32 both;
                        if (BACK) {
                            both = pair_of(one, two) & (passed >> bit & 0x00010001u) * 0xffffu;
                        } else {
                            both = pair_of(positive(one), positive(two));
                            // neither half has a sign: bits 15 and 31 are set where it is not 0
                            passes |= (both + 0x7fff7fffu & 0x80008000u) >> (15 - bit);
                        }
                        to[places[upper][half] + row * S::ROW * 4] = both;
                    }
                }
            }
            if (!BACK) *word = passes;
        }
        wait_for_copies();
        __syncthreads();
    }

    for (int i = thread; i < 2 * VALUES; i += THREADS) {
        const int image = i / VALUES, pixel = i % VALUES / S::PIECES, piece = i % S::PIECES;
        const int at = (pixel / S::SIDE + 1) * S::PITCH + pixel % S::SIDE + 1;
        if (first + image < images) target[(size_t)first * VALUES + i] = memory[S::piece_at(image, at, piece)];
    }
}
