// The tournament of a loaded matrix: each two ranks meet once, and nobody has two opponents.
#include "expect.hpp"
#include "group/round_robin.hpp"

#include <set>
#include <utility>

using namespace volley;

namespace {

void each_two_meet_once(int ranks) {
  std::set<std::pair<int, int>> met;
  for (int round = 0; round < rounds_of(ranks); ++round) {
    int resting = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const int other = partner_of(ranks, round, rank);
      if (other < 0) {
        ++resting;
        continue;
      }
      EXPECT(other < ranks && other != rank && partner_of(ranks, round, other) == rank);
      EXPECT(met.insert({rank, other}).second);
    }
    EXPECT(resting == ranks % 2);
  }
  EXPECT(static_cast<int>(met.size()) == ranks * (ranks - 1));
}

// Every ordered pair meets once, and no party has two pairs at a time.
void one_pair_of_each_party(const std::vector<int>& party_of) {
  const Parties parties(party_of);
  std::set<RankPair> met;
  for (const auto& round : all_rounds_of(parties)) {
    std::set<int> busy;
    for (int rank = 0; rank < static_cast<int>(party_of.size()); ++rank) {
      const RankPair pair = round.ends(parties, rank);
      if (pair[0] != rank) continue;
      EXPECT(met.insert(pair).second);
      EXPECT(round.ends(parties, pair[0]) == pair && round.ends(parties, pair[1]) == pair);
      const std::set<int> its{parties.of[static_cast<std::size_t>(pair[0])],
                              parties.of[static_cast<std::size_t>(pair[1])]};
      for (const int party : its) EXPECT(busy.insert(party).second);
    }
  }
  EXPECT(met.size() == party_of.size() * (party_of.size() - 1));
}

TEST(a_large_job_does_not_overflow) {
  const int ranks = 100'000;
  const int last = rounds_of(ranks) - 1;
  const int other = partner_of(ranks, last, ranks - 1);
  EXPECT(other >= 0 && other < ranks - 1 && partner_of(ranks, last, other) == ranks - 1);
}

TEST(everybody_meets_everybody) {
  for (int ranks = 2; ranks <= 33; ++ranks) each_two_meet_once(ranks);
  one_pair_of_each_party({0, 1, 2, 3, 4});
  one_pair_of_each_party({0, 0, 0});
  one_pair_of_each_party({0, 1, 2, 0, 1, 2, 0, 3});
}

}  // namespace

int main() { return test::run_all(); }
