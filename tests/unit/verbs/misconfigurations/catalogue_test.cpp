// SPDX-License-Identifier: MIT
// Produces each misconfiguration of the catalogue. Its error has call, code and object, and a
// diagnosis that no other misconfiguration has.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/verbs/misconfigurations/produce.hpp"

namespace verbena::misconfigurations {
namespace {

enum class origin : std::uint8_t { real, injected };

struct row {
  const char* name;
  origin kind;
  error (*produce)();
  std::string_view call;
  int number;
  std::string_view object;
  std::string_view words;
};

#define GROUP(title)
#define ROW(name, kind, title, call, number, object, words) \
  {#name, origin::kind, &name, call, number, object, words},
constexpr row catalogue[] = {
#include "tests/unit/verbs/misconfigurations/catalogue.inc"
};
#undef ROW
#undef GROUP

std::size_t count(origin kind) {
  return static_cast<std::size_t>(std::ranges::count(catalogue, kind, &row::kind));
}

TEST(misconfigurations, each_has_a_distinct_diagnosis) {
  std::vector<std::string> diagnoses;
  for (const row& each : catalogue) {
    const error failed = each.produce();
    const std::string shown = std::string(each.name) + ": " + failed.message();
    EXPECT_EQ(failed.call(), each.call) << shown;
    EXPECT_EQ(failed.code(), each.number) << shown;
    EXPECT_NE(failed.object().find(each.object), std::string::npos) << shown;
    EXPECT_NE(failed.diagnosis().find(each.words), std::string::npos) << shown;
    diagnoses.emplace_back(failed.diagnosis());
  }
  // No two misconfigurations have the same diagnosis.
  for (std::size_t i = 0; i < std::size(catalogue); ++i)
    for (std::size_t j = 0; j < std::size(catalogue); ++j)
      EXPECT_TRUE(i == j || diagnoses[j].find(catalogue[i].words) == std::string::npos)
          << catalogue[j].name << " has the words of " << catalogue[i].name << ": " << diagnoses[j];
}

TEST(misconfigurations, at_least_sixty_are_produced_and_forty_are_real) {
  EXPECT_GE(std::size(catalogue), 60U);
  EXPECT_GE(count(origin::real), 40U);
  EXPECT_LT(count(origin::injected), count(origin::real) / 2);
}

}  // namespace
}  // namespace verbena::misconfigurations
