// Every benchmark. To add a benchmark, add its file or folder and a line here.
#pragma once

#include "benchmark/benchmark.hpp"

namespace volley {

BenchmarkMaker make_pingpong, make_stream, make_rank_matrix, make_jacobi, make_collective, make_message_rate,
    make_overlap, make_path, make_probe, make_self_send, make_gpu_matrix, make_replay;

inline constexpr std::array benchmarks{
    BenchmarkEntry{"pingpong", make_pingpong},
    BenchmarkEntry{"stream", make_stream},
    BenchmarkEntry{"rank_matrix", make_rank_matrix},
    BenchmarkEntry{"jacobi", make_jacobi},
    BenchmarkEntry{"collective", make_collective},
    BenchmarkEntry{"message_rate", make_message_rate},
    BenchmarkEntry{"overlap", make_overlap},
    BenchmarkEntry{"probe", make_probe},
    BenchmarkEntry{"self_send", make_self_send},
    BenchmarkEntry{"gpu_matrix", make_gpu_matrix},
    BenchmarkEntry{"path", make_path},
    BenchmarkEntry{"replay", make_replay},
};

}  // namespace volley
