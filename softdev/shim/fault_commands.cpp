// SPDX-License-Identifier: MIT
// Commands that inject faults of requests.
#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "softdev/host/host.hpp"
#include "softdev/shim/command.hpp"
#include "softdev/shim/triggered_commands.hpp"
#include "verbena/base/log.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev {
namespace {

constexpr std::uint64_t most = ~std::uint64_t{0};

constexpr std::array statuses = {
    named<completion_status>{"loc_len_err", completion_status::local_length_error},
    named<completion_status>{"loc_qp_op_err", completion_status::local_qp_operation_error},
    named<completion_status>{"loc_prot_err", completion_status::local_protection_error},
    named<completion_status>{"bad_resp_err", completion_status::bad_response_error},
    named<completion_status>{"loc_access_err", completion_status::local_access_error},
    named<completion_status>{"rem_inv_req_err", completion_status::remote_invalid_request},
    named<completion_status>{"rem_access_err", completion_status::remote_access_error},
    named<completion_status>{"rem_op_err", completion_status::remote_operation_error},
    named<completion_status>{"retry_exc_err", completion_status::retry_exceeded},
    named<completion_status>{"rnr_retry_exc_err", completion_status::rnr_retry_exceeded},
    named<completion_status>{"rem_inv_rd_req_err", completion_status::remote_invalid_read_request},
    named<completion_status>{"fatal_err", completion_status::fatal_error},
    named<completion_status>{"resp_timeout_err", completion_status::response_timeout},
};

constexpr std::array opcodes = {
    named<opcode>{"send", opcode::send},
    named<opcode>{"send_with_imm", opcode::send_with_imm},
    named<opcode>{"rdma_write", opcode::rdma_write},
    named<opcode>{"rdma_write_with_imm", opcode::rdma_write_with_imm},
    named<opcode>{"rdma_read", opcode::rdma_read},
    named<opcode>{"atomic_cmp_and_swp", opcode::compare_swap},
    named<opcode>{"atomic_fetch_and_add", opcode::fetch_add},
};
constexpr std::array receiving_opcodes = {
    opcodes[0],
    opcodes[1],
    opcodes[3],
};

// The seed of probabilities; 0 until it is set or drawn.
std::atomic<std::uint64_t> seed{0};

std::uint64_t seed_of_probabilities() {
  std::uint64_t known = seed.load();
  if (known == 0) {
    std::uint64_t drawn = random_u64() | 1U;
    if (seed.compare_exchange_strong(known, drawn)) known = drawn;
  }
  return known;
}

template <class Table>
std::uint8_t read_opcodes(word_reader& words, const Table& permitted) {
  unsigned mask = 0;
  for (const opcode one : words.choose_several(permitted)) mask |= 1U << static_cast<unsigned>(one);
  return static_cast<std::uint8_t>(mask);
}

// Reads one `name=value` of the selection. Returns false if the next word is not one.
template <class Table>
bool read_selector(word_reader& words, fault_rule& rule, const Table& permitted) {
  const bool has_choice = rule.at != 0 || rule.every != 0 || rule.probability != 0;
  if (words.accept_key("qp")) {
    rule.qp_num = static_cast<std::uint32_t>(words.number(1, 0xff'ffff));
  } else if (words.accept_key("qp-index")) {
    rule.qp_index = static_cast<std::uint32_t>(words.number(1, 0xffff'ffff));
  } else if (words.accept_key("opcode")) {
    rule.opcodes = read_opcodes(words, permitted);
  } else if (words.accept_key("count")) {
    rule.count = words.number(1, most);
  } else if (!has_choice && words.accept_key("at")) {
    rule.at = words.number(1, most);
  } else if (!has_choice && words.accept_key("every")) {
    rule.every = words.number(1, most);
  } else if (!has_choice && words.accept_key("probability")) {
    rule.probability = words.probability();
  } else if (rule.probability != 0 && words.accept_key("seed")) {
    rule.seed = words.number(1, most);
  } else {
    return false;
  }
  return true;
}

constexpr const char* selectors =
    "qp=NUMBER, qp-index=N, opcode=NAME, count=N, and one of at=N, every=N, probability=P, with "
    "seed=N after probability=P";

void read_selection(word_reader& words, fault_rule& rule) {
  while (!words.at_end() && !words.problem()) {
    if (!read_selector(words, rule, opcodes)) words.refuse(selectors);
  }
}

fault_rule with_seed(fault_rule rule) {
  if (rule.probability != 0 && rule.seed == 0) {
    rule.seed = seed_of_probabilities();
    log(log_level::warning, "soft0: random faults use seed " + std::to_string(rule.seed) +
                                "; the command \"seed " + std::to_string(rule.seed) +
                                "\" before them injects the same faults again");
  }
  return rule;
}

command adding(const fault_rule& rule) {
  return [rule](host& home) {
    home.core().add_fault(with_seed(rule));
    return 0;
  };
}

// Reads a status: its name or its number.
completion_status read_status(word_reader& words) {
  for (const auto& row : statuses)
    if (words.accept(std::to_string(static_cast<unsigned>(row.value)))) return row.value;
  return words.choose(statuses);
}

command read_fail(word_reader& words) {
  fault_rule rule{.effect = fault_effect::error};
  rule.status = read_status(words);
  rule.delivered = words.accept("delivered");
  read_selection(words, rule);
  return adding(rule);
}

command read_rnr(word_reader& words) {
  constexpr std::uint8_t of_receives = 1U << static_cast<unsigned>(opcode::send) |
                                       1U << static_cast<unsigned>(opcode::send_with_imm) |
                                       1U << static_cast<unsigned>(opcode::rdma_write_with_imm);
  fault_rule rule{.effect = fault_effect::receiver_not_ready, .rnr_timer = 1};
  rule.opcodes = of_receives;
  while (!words.at_end() && !words.problem()) {
    if (words.accept_key("times"))
      rule.repetitions = static_cast<std::uint32_t>(words.number(1, 0xffff'ffff));
    else if (words.accept_key("timer"))
      rule.rnr_timer = static_cast<std::uint8_t>(words.number(0, 31));
    else if (!read_selector(words, rule, receiving_opcodes))
      words.refuse("times=N, timer=CODE, " + std::string(selectors));
  }
  return adding(rule);
}

command read_delay(word_reader& words) {
  fault_rule rule{.effect = fault_effect::delay};
  rule.delay = static_cast<time_ns>(words.duration().count()) * 1'000;
  read_selection(words, rule);
  return adding(rule);
}

command read_when(word_reader& words) {
  fault_rule rule;
  while (!words.problem() && !words.accept("do"))
    if (!read_selector(words, rule, opcodes))
      words.refuse("do COMMAND, or " + std::string(selectors));
  constexpr unsigned most_inside = 7;
  if (!words.problem() && words.peek() == "when" && !words.nest(most_inside))
    words.refuse("a command other than `when` (at most 8 nested)");
  command act = words.problem() ? command() : read_command(words);
  return [rule, act](host& home) { return add_triggered_command(home, with_seed(rule), act); };
}

command read_seed(word_reader& words) {
  return [value = words.number(1, most)](host& /*home*/) {
    seed.store(value);
    return 0;
  };
}

command read_clear(word_reader& /*words*/) {
  return [](host& home) {
    home.core().remove_faults();
    return 0;
  };
}

constexpr std::array fault_rows = {
    named<command (*)(word_reader&)>{"fail", &read_fail},
    named<command (*)(word_reader&)>{"rnr", &read_rnr},
    named<command (*)(word_reader&)>{"delay", &read_delay},
    named<command (*)(word_reader&)>{"when", &read_when},
    named<command (*)(word_reader&)>{"seed", &read_seed},
    named<command (*)(word_reader&)>{"clear-faults", &read_clear},
};

command read_fault_command(word_reader& words) {
  for (const auto& row : fault_rows)
    if (words.accept(row.name)) return row.value(words);
  return {};
}

}  // namespace

command_family fault_commands() noexcept {
  return {&read_fault_command, [] { return names_of(fault_rows); }};
}

}  // namespace verbena::softdev
