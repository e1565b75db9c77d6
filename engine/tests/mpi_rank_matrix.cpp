// At 2 and 4 ranks: whole matrices in each mode, from plan to records.
#include "benchmark/benchmark.hpp"
#include "expect.hpp"
#include "group/context.hpp"
#include "record/records.hpp"
#include "start_mpi.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace volley {
BenchmarkMaker make_rank_matrix;
}  // namespace volley

using namespace volley;

namespace {

using Document = nlohmann::ordered_json;

// The plan as JSON: tests change it before it is read.
Document plan_of(int ranks, const std::string& mode) {
  return {{"plan", plan_version},
          {"benchmark", "rank_matrix"},
          {"world_size", ranks},
          {"transports", {"host"}},
          {"options", {{"mode", mode}, {"window", 4}, {"latency_sizes_bytes", {8}}, {"bandwidth_sizes_bytes", {1000}}}},
          {"sampling", {{"mode", "fixed"}, {"iterations", 3}}}};
}

// The records of a matrix of this plan, on the first rank. The other ranks read what it leaves them of the plan.
std::vector<Document> records_of(const Context& context, const Document& plan) {
  const std::string path = "/tmp/volley-mpi-matrix-" + std::to_string(getpid()) + ".jsonl";
  constexpr std::array benchmarks{BenchmarkEntry{"rank_matrix", make_rank_matrix}};
  auto reading = read_plan(plan.dump(), benchmarks);
  const std::string others = reading.benchmark->for_other_ranks(reading.plan.document);
  EXPECT(others.find("\"rounds\":[[") == std::string::npos);
  if (context.rank != 0) reading = read_plan(others, benchmarks);
  EXPECT(reading.errors.empty());
  std::vector<Document> lines;
  {
    std::optional<Output> output;
    if (context.rank == 0) output.emplace(Output::claim(path));
    Records records(context.rank == 0 ? &*output : nullptr);
    Watchdog watchdog("rank " + std::to_string(context.rank), 60);
    static_cast<void>(reading.benchmark->run({context, &context, reading.plan, records, watchdog}));
  }
  if (context.rank != 0) return lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(Document::parse(line));
  std::remove(path.c_str());
  return lines;
}

std::vector<Document> rows_in(const std::vector<Document>& records) {
  std::vector<Document> rows;
  for (const auto& record : records) {
    if (record.at("record") == "rank_matrix") rows.push_back(record);
  }
  return rows;
}

// The pairs of a row, one object each.
std::vector<Document> cells_of(const Document& row) {
  std::vector<Document> cells;
  const std::size_t count = row.at("medians").size();
  for (std::size_t i = 0; i < count; ++i) {
    const int other = static_cast<int>(i);
    const int rank =
        !row.at("ranks").empty() ? row.at("ranks")[i].get<int>() : other + (other >= row.at("rank") ? 1 : 0);
    Document cell = {{"rank", rank}, {"status", "ok"}, {"reason", nullptr}, {"mismatch", nullptr}};
    for (const char* name : {"medians", "lows", "highs", "samples"}) {
      if (row.at(name).empty()) continue;
      EXPECT(row.at(name).size() == count);
      cell[name] = row.at(name)[i];
    }
    for (const char* name : {"samples_s", "visits"})
      cell[name] = row.at(name).empty() ? Document::array() : row.at(name)[i];
    for (const auto& failed : row.at("failed")) {
      if (failed.at("rank") == rank) cell["status"] = "failed", cell["mismatch"] = failed.at("mismatch");
    }
    for (const auto& skipped : row.at("skipped")) {
      for (const auto& second : skipped.at("ranks")) {
        if (second == rank) cell["status"] = "skipped", cell["reason"] = skipped.at("reason");
      }
    }
    cells.push_back(cell);
  }
  return cells;
}

// A matrix of this plan has rows of all ranks, each with every other rank once, in order; `judge` looks at each cell.
// Returns the first record; none on other ranks.
template <class Judge>
std::optional<Document> whole(const Context& context, const Document& plan, std::size_t cases, Judge judge) {
  const auto records = records_of(context, plan);
  if (context.rank != 0) return std::nullopt;
  const auto rows = rows_in(records);
  EXPECT(rows.size() == static_cast<std::size_t>(context.size) * cases);
  for (const auto& row : rows) {
    int expected = 0;
    const auto cells = cells_of(row);
    EXPECT(cells.size() == static_cast<std::size_t>(context.size - 1) && row.at("ranks").empty());
    for (const auto& cell : cells) {
      if (expected == row.at("rank").get<int>()) ++expected;
      EXPECT(cell.at("rank").get<int>() == expected++);
      judge(row, cell);
    }
  }
  return records.front();
}

void every_pair_is_measured(const Context& context, const std::string& mode) {
  Document plan = plan_of(context.size, mode);
  plan["options"]["samples"] = true;
  const auto first = whole(context, plan, 2, [&](const Document& row, const Document& cell) {
    EXPECT(row.at("mode") == mode);
    EXPECT(cell.at("status") == "ok" && cell.at("medians").get<double>() * row.at("unit_s").get<double>() > 0);
    EXPECT(cell.at("samples") == 1 && cell.at("samples_s").size() == 1 && cell.at("lows").is_null());
    EXPECT(cell.at("visits") == std::vector<int>{1});
    EXPECT(row.at("messages_verified").get<int>() >= context.size - 1);
  });
  if (first) EXPECT(first->at("record") == "transport" && first->at("available").get<bool>());
}

void adaptive_cells_have_intervals(const Context& context, const std::string& mode) {
  Document plan = plan_of(context.size, mode);
  plan["sampling"] = {{"point_time_s", 0.02}};
  plan["options"]["direction"] = "bi";
  whole(context, plan, 2, [](const Document& row, const Document& cell) {
    EXPECT(cell.at("samples").get<int>() >= 6 && cell.at("samples_s").empty());
    EXPECT(cell.at("lows").get<std::uint64_t>() <= cell.at("medians").get<std::uint64_t>());
    EXPECT(cell.at("highs").get<std::uint64_t>() >= cell.at("medians").get<std::uint64_t>());
    std::uint64_t shortest = std::numeric_limits<std::uint64_t>::max();
    for (const auto& median : row.at("medians")) shortest = std::min(shortest, median.get<std::uint64_t>());
    EXPECT(1000 <= shortest && shortest <= 10000);  // four digits; 9999.6 units are 10000
  });
}

// Wrong data fails its own cells; the others are measured all the same.
void wrong_data_fails_its_cell(const Context& context, const std::string& mode) {
  Document plan = plan_of(context.size, mode);
  plan["transports"] = {"host+flip", "host"};
  whole(context, plan, 4, [](const Document& row, const Document& cell) {
    const bool broken = row.at("transport") == "host+flip";
    EXPECT(cell.at("status") == (broken ? "failed" : "ok"));
    EXPECT(cell.at("medians").is_null() == broken && cell.at("mismatch").is_null() == !broken);
  });
}

void what_is_unavailable_is_skipped(const Context& context, const std::string& mode) {
  Document plan = plan_of(context.size, mode);
  plan["excluded"] = {{"host", "a reason"}};
  const auto first = whole(context, plan, 2, [](const Document&, const Document& cell) {
    EXPECT(cell.at("status") == "skipped" && cell.at("reason") == "a reason");
  });
  if (first) EXPECT(first->at("reason") == "a reason" && !first->at("available").get<bool>());
}

// A transport that one rank cannot open is skipped with that rank's reason; the others are measured.
void what_cannot_be_opened_is_skipped(const Context& context, const std::string& mode) {
  Document plan = plan_of(context.size, mode);
  plan["transports"] = {"host+unopened", "host"};
  whole(context, plan, 4, [](const Document& row, const Document& cell) {
    EXPECT(cell.at("status") == (row.at("transport") == "host+unopened" ? "skipped" : "ok"));
  });
}

void a_budget_that_is_used_up_skips_the_rest(const Context& context, const std::string& mode) {
  Document plan = plan_of(context.size, mode);
  plan["budget_s"] = 1e-9;
  whole(context, plan, 2, [](const Document&, const Document& cell) { EXPECT(cell.at("status") == "skipped"); });
}

void chosen_pairs_are_repeated(const Context& context) {
  Document plan = plan_of(context.size, "isolated");
  plan["options"]["pairs"] = {{1, 0}, {0, 1}};
  plan["options"]["repeats"] = 3;
  const auto records = records_of(context, plan);
  if (context.rank != 0) return;
  const auto rows = rows_in(records);
  EXPECT(rows.size() == 2 * 2 * 3);
  for (const auto& row : rows) {
    EXPECT(cells_of(row).size() == 1 && cells_of(row)[0].at("rank") == 1 - row.at("rank").get<int>());
  }
  EXPECT(rows.back().at("repeat") == 2);
}

// Loaded, the rounds of a chosen pair are played by all.
void chosen_rounds_are_played_by_all(const Context& context) {
  Document plan = plan_of(context.size, "loaded");
  plan["options"]["pairs"] = Document::array({Document::array({1, 0})});
  const auto records = records_of(context, plan);
  if (context.rank != 0) return;
  const auto rows = rows_in(records);
  EXPECT(rows.size() == static_cast<std::size_t>(context.size / 2) * 2);
  for (const auto& row : rows) EXPECT(row.at("medians").size() == 1);
}

// Rounds that the plan names: each repetition has a row of each first rank, with the pairs of that rank.
void named_rounds(const Context& context) {
  const int last = context.size - 1;
  Document plan = plan_of(context.size, "loaded");
  plan["options"]["repeats"] = 2;
  plan["options"]["rounds"] =
      Document::array({Document::array({Document::array({1, 0})}), Document::array({Document::array({0, last})})});
  if (context.size > 3) {
    plan["options"]["rounds"][0].push_back(Document::array({2, 3}));
    plan["options"]["rounds"].push_back(Document::array({Document::array({2, 0})}));
  }
  const auto records = records_of(context, plan);
  if (context.rank != 0) return;
  std::vector<std::vector<int>> found;
  for (const auto& row : rows_in(records)) {
    if (row.at("pattern") == "stream") continue;
    std::vector<int> ranks{row.at("repeat").get<int>(), row.at("rank").get<int>()};
    for (const auto& second : row.at("ranks")) ranks.push_back(second.get<int>());
    EXPECT(row.at("medians").size() + 2 == ranks.size() && !row.at("medians")[0].is_null());
    found.push_back(ranks);
  }
  const std::vector<std::vector<int>> of_two{{0, 0, 1}, {0, 1, 0}, {1, 0, 1}, {1, 1, 0}};
  const std::vector<std::vector<int>> of_four{{0, 0, 3}, {0, 1, 0}, {0, 2, 0, 3}, {1, 0, 3}, {1, 1, 0}, {1, 2, 0, 3}};
  EXPECT(found == (context.size > 3 ? of_four : of_two));
}

// Of two nodes one pair meets at a time, and within the nodes a pair of each.
void one_pair_of_each_node(const Context& context) {
  if (context.size < 4) return;
  Document plan = plan_of(context.size, "nodes");
  for (const auto& [pair, firsts] : {std::pair{std::array{3, 0}, 1U}, std::pair{std::array{1, 0}, 2U}}) {
    plan["options"]["pairs"] = Document::array({pair});
    const auto records = records_of(context, plan);
    if (context.rank == 0) EXPECT(rows_in(records).size() == 2 * firsts);
  }
}

// Each message between ranks 0 and 1 waits, so neither way can be shorter than the wait.
void a_delayed_pair_takes_longer(const Context& context) {
  Document plan = plan_of(context.size, "isolated");
  plan["transports"] = {"host+delay"};
  const auto records = records_of(context, plan);
  if (context.rank != 0) return;
  for (const auto& row : rows_in(records)) {
    for (const auto& cell : cells_of(row)) {
      const int first = row.at("rank").get<int>();
      const int second = cell.at("rank").get<int>();
      if (first + second == 1) {
        EXPECT(cell.at("medians").get<double>() * row.at("unit_s").get<double>() >= 0.1999e-3);
      }
      EXPECT(cell.at("status") == "ok");
    }
  }
}

}  // namespace

int main() {
  start_mpi();
  {
    Context context = make_context(Options{}, place(Options{}));
    for (int& node : context.node_of) node = static_cast<int>(&node - context.node_of.data()) / 2;  // as on two nodes
    context.hosts.resize(context.node_of.size(), context.hosts[0]);
    if (context.size > 1) {  // there is no matrix of one rank: plans refuse it
      for (const char* mode : {"isolated", "nodes", "loaded"}) {
        every_pair_is_measured(context, mode);
        if (context.size == 2 || std::string(mode) == "loaded") adaptive_cells_have_intervals(context, mode);
        wrong_data_fails_its_cell(context, mode);
        what_is_unavailable_is_skipped(context, mode);
        what_cannot_be_opened_is_skipped(context, mode);
        a_budget_that_is_used_up_skips_the_rest(context, mode);
      }
      chosen_pairs_are_repeated(context);
      chosen_rounds_are_played_by_all(context);
      named_rounds(context);
      one_pair_of_each_node(context);
      a_delayed_pair_takes_longer(context);
    }
  }
  MPI_Finalize();
  return test::finish();
}
