// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/cm/simulation/simulation.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/softdev/cm/simulation/attempt.hpp"
#include "tests/unit/softdev/cm/simulation/host.hpp"
#include "tests/unit/softdev/cm/simulation/network.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev::cm::simulation {
namespace {

using std::chrono::seconds;

constexpr time_point start_of_time{seconds(1'000)};
/// Longer than all timeouts together.
constexpr seconds longest_run{600};
/// After the last endpoint, both managers must have forgotten everything in this time.
constexpr seconds longest_end{120};
constexpr std::uint32_t most_attempts = 12;

struct setting {
  network_faults faults;
  std::vector<attempt_plan> plans;
};

setting choose(random_source& random) {
  setting made;
  constexpr std::array rates{0U, 0U, 20U, 100U, 300U};
  const auto rate = [&] { return rates[random.below(rates.size())]; };
  made.faults.loss = rate();
  made.faults.duplication = rate();
  made.faults.reordering = rate();
  made.faults.delay = microseconds(20 + random.below(100'000));
  made.faults.longest_detour = microseconds(random.below(2'000'000));
  if (random.chance(150)) {
    made.faults.partition_begin = now + milliseconds(random.below(10'000));
    if (random.chance(700))
      made.faults.partition_end = made.faults.partition_begin + milliseconds(random.below(90'000));
  }
  const std::uint32_t count = 1 + random.below(most_attempts);
  for (std::uint32_t i = 0; i < count; ++i) made.plans.push_back(choose_plan(random));
  return made;
}

std::string describe(const setting& what) {
  const network_faults& faults = what.faults;
  const auto number = [](const char* name, std::uint64_t value) {
    return std::string(name) + " " + std::to_string(value);
  };
  const auto since = [](time_point when) {
    return static_cast<std::uint64_t>((when - start_of_time) / milliseconds(1));
  };
  std::string text =
      number("attempts", what.plans.size()) + number("; of 1000 messages: lost", faults.loss) +
      number(", doubled", faults.duplication) + number(", reordered", faults.reordering) +
      number("; delay in us", static_cast<std::uint64_t>(faults.delay.count()));
  if (faults.partition_begin != time_point::max())
    text += number("; partition at ms", since(faults.partition_begin));
  if (faults.partition_end != time_point::max()) text += number(" to", since(faults.partition_end));
  return text;
}

/// Records the first message of the log: no fault of the network is a reason for a warning.
/// Threads: one at a time in a process.
class log_recorder {
 public:
  log_recorder() noexcept { set_log_hook(&record, &first_, log_level::warning); }
  log_recorder(const log_recorder&) = delete;
  log_recorder& operator=(const log_recorder&) = delete;
  ~log_recorder() { set_log_hook(nullptr); }
  [[nodiscard]] const std::string& first() const noexcept { return first_; }

 private:
  static void record(log_level /*level*/, std::string_view text, void* user) {
    auto& first = *static_cast<std::string*>(user);
    if (first.empty()) first = text;
  }

  std::string first_;
};

/// Threads: one thread at a time.
class world {
 public:
  world(const setting& chosen, random_source& random, const message_observer& observer)
      : network_(chosen.faults, random) {
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      hosts_[i] =
          std::make_unique<host>(i, network_, [&observer](std::size_t from, const mad& what) {
            if (observer) observer(now, from, what);
          });
    for (const attempt_plan& each : chosen.plans) {
      const auto index = static_cast<std::uint32_t>(attempts_.size());
      attempts_.push_back(std::make_unique<attempt>(
          index, each,
          std::array{place{hosts_[0].get(), &numbers_[0]}, place{hosts_[1].get(), &numbers_[1]}},
          !network_.has_partition()));
      plan(each.start_at, index, step::start);
      if (each.give_up_after != milliseconds::max())
        plan(each.start_at + each.give_up_after, index, step::give_up);
    }
  }

  [[nodiscard]] outcome run() {
    outcome made;
    made.violation = run_until_idle(now + longest_run);
    for (const auto& each : attempts_) {
      if (made.violation.empty()) each->judge_end();
      if (each->was_established()) ++made.established;
    }
    if (made.violation.empty()) made.violation = first_violation();
    if (made.violation.empty()) {
      for (const auto& each : hosts_) each->stop_listening();
      made.violation = run_until_idle(now + longest_end);
    }
    made.attempts = attempts_.size();
    made.messages = network_.sent();
    made.faults = network_.faults();
    return made;
  }

 private:
  struct planned_step {
    std::uint32_t attempt = 0;
    step what{};
  };

  void plan(time_point when, std::uint32_t index, step what) {
    steps_[{when, steps_planned_++}] = {index, what};
  }
  /// Runs until no message is in flight and no work is due later. Returns a violation, or an empty
  /// string.
  [[nodiscard]] std::string run_until_idle(time_point limit) {
    while (true) {
      const time_point next = run_due();
      if (std::string found = first_violation(); !found.empty()) return found;
      if (next == time_point::max()) return {};
      if (next > limit) return "the managers have work for too long";
      now = std::max(now, next);
    }
  }

  /// Does everything that is due. Returns when further work is due.
  [[nodiscard]] time_point run_due() {
    while (true) {
      while (network_.next_arrival() <= now) {
        const travelling_message each = network_.take();
        hosts_.at(each.host)->receive(each.bytes);
        run_hosts();
      }
      while (!steps_.empty() && steps_.begin()->first.first <= now) {
        const planned_step each = steps_.extract(steps_.begin()).mapped();
        attempts_[each.attempt]->perform(each.what);
        run_hosts();
      }
      const time_point next =
          std::min({run_hosts(), network_.next_arrival(),
                    steps_.empty() ? time_point::max() : steps_.begin()->first.first});
      if (next > now) return next;
    }
  }

  time_point run_hosts() {
    time_point next = time_point::max();
    for (const auto& each : hosts_) {
      next = std::min(next, each->all().turn());
      while (std::optional<event> found = each->take()) handle(*found);
    }
    return next;
  }

  void handle(const event& what) {
    if (what.kind == event_kind::connect_request) {
      const std::uint32_t index = attempt::number_in(what.data);
      if (index >= attempts_.size()) {
        violation_ = "a request of no attempt";
        return;
      }
      attempts_[index]->request_arrived(what);
      plan(now + attempts_[index]->plan().answer_after, index, step::answer);
      return;
    }
    const auto found =
        std::ranges::find_if(attempts_, [&](const auto& each) { return each->has(what.about); });
    if (found == attempts_.end()) {
      violation_ = "an event about a destroyed endpoint";
      return;
    }
    (*found)->judge(what);
    const auto index = static_cast<std::uint32_t>(found - attempts_.begin());
    if (what.kind != event_kind::connect_response) return;
    const time_point confirm_at = now + (*found)->plan().confirm_after;
    plan(confirm_at, index, step::confirm);
    for (const step each : {step::end_active, step::end_passive}) plan_end(confirm_at, index, each);
  }
  void plan_end(time_point confirm_at, std::uint32_t index, step what) {
    const milliseconds after = attempts_[index]->plan().end_after[what == step::end_active ? 0 : 1];
    if (after != milliseconds::max()) plan(confirm_at + after, index, what);
  }

  [[nodiscard]] std::string first_violation() const {
    for (const auto& each : attempts_)
      if (!each->violation().empty()) return each->violation();
    return violation_;
  }

  network network_;
  std::array<std::unique_ptr<host>, 2> hosts_;
  std::array<queue_pair_numbers, 2> numbers_;
  std::vector<std::unique_ptr<attempt>> attempts_;
  std::map<std::pair<time_point, std::uint64_t>, planned_step> steps_;
  std::uint64_t steps_planned_ = 0;
  std::string violation_;
};

}  // namespace

outcome run_seed(std::uint64_t seed, const message_observer& observer) {
  now = start_of_time;
  random_source random(seed);
  const setting chosen = choose(random);
  const log_recorder log;
  outcome made = world(chosen, random, observer).run();
  if (made.violation.empty() && !log.first().empty()) made.violation = "a warning: " + log.first();
  made.setting = describe(chosen);
  return made;
}

}  // namespace verbena::softdev::cm::simulation
