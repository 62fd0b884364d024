// SPDX-License-Identifier: MIT
// Every misconfiguration of the catalogue is provoked: its error names the call, the number and the
// object, and its diagnosis is its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/verbs/misconfigurations/provoke.hpp"

namespace verbena::misconfigurations {
namespace {

enum class provoked : std::uint8_t { real, injected };

struct row {
  const char* name;
  provoked kind;
  error (*provoke)();
  std::string_view call;
  int number;
  std::string_view object;
  std::string_view words;
};

#define GROUP(title)
#define ROW(name, kind, title, call, number, object, words) \
  {#name, provoked::kind, &name, call, number, object, words},
constexpr row catalogue[] = {
#include "tests/unit/verbs/misconfigurations/catalogue.inc"
};
#undef ROW
#undef GROUP

std::size_t count(provoked kind) {
  return static_cast<std::size_t>(std::ranges::count(catalogue, kind, &row::kind));
}

TEST(misconfigurations, each_is_named_by_a_diagnosis_of_its_own) {
  std::vector<std::string> diagnoses;
  for (const row& each : catalogue) {
    const error failed = each.provoke();
    const std::string shown = std::string(each.name) + ": " + failed.message();
    EXPECT_EQ(failed.call(), each.call) << shown;
    EXPECT_EQ(failed.code(), each.number) << shown;
    EXPECT_NE(failed.object().find(each.object), std::string::npos) << shown;
    EXPECT_NE(failed.diagnosis().find(each.words), std::string::npos) << shown;
    diagnoses.emplace_back(failed.diagnosis());
  }
  // Two causes never have one text.
  for (std::size_t i = 0; i < std::size(catalogue); ++i)
    for (std::size_t j = 0; j < std::size(catalogue); ++j)
      EXPECT_TRUE(i == j || diagnoses[j].find(catalogue[i].words) == std::string::npos)
          << catalogue[j].name << " has the words of " << catalogue[i].name << ": " << diagnoses[j];
}

TEST(misconfigurations, enough_are_provoked_and_most_of_them_are_real) {
  EXPECT_GE(std::size(catalogue), 60U);
  EXPECT_GE(count(provoked::real), 40U);
  EXPECT_LT(count(provoked::injected), count(provoked::real) / 2);
}

}  // namespace
}  // namespace verbena::misconfigurations
