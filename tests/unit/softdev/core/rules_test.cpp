// SPDX-License-Identifier: MIT
// Contracts of the core: a violation aborts the program with a message.
#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

using rules = fabric;
time_ns no_time() { return 0; }

TEST_F(rules, engine_without_clock_stops_the_program) {
  EXPECT_DEATH(engine({}), "an engine is given a clock");
}
TEST_F(rules, process_slot_beyond_the_last_stops_the_program) {
  EXPECT_DEATH(engine({.process_slot = slot_count, .clock = &no_time}),
               "a process slot is less than 3904");
}
TEST_F(rules, destroying_engine_before_its_queue_pairs_stops_the_program) {
  completion_queue cq({.capacity = 1});
  EXPECT_DEATH(
      {
        engine short_lived({.clock = &no_time});
        static_cast<void>(short_lived.create({.send_queue = &cq, .receive_queue = &cq}));
      },
      "queue pairs are destroyed before their engine");
}
TEST_F(rules, destroying_queue_pair_of_another_engine_stops_the_program) {
  engine other({.clock = &no_time});
  end_point& mine = make();
  EXPECT_DEATH(other.destroy(mine.qp), "a queue pair is destroyed by its engine, once");
}
TEST_F(rules, completion_queue_capacity_beyond_limits_stops_the_program) {
  EXPECT_DEATH(completion_queue({.capacity = 0}), "within the device's limits");
  EXPECT_DEATH(completion_queue({.capacity = limits::max_completions + 1}),
               "within the device's limits");
}
TEST_F(rules, releasing_a_valid_key_stops_the_program) {
  memory_region_table table;
  const std::uint32_t key = table.add({});
  EXPECT_DEATH(table.release(key), "a key is invalidated before it is released");
}
#ifdef VERBENA_CHECKED
TEST_F(rules, data_without_request_in_open_batch_stops_the_program) {
  end_point& mine = make();
  mine.qp->sends().open();
  EXPECT_DEATH(static_cast<void>(mine.qp->sends().set_sges({})),
               "data belong to a request of the open batch");
  mine.qp->sends().abort();
}
#endif

}  // namespace
}  // namespace verbena::softdev::testing
