// SPDX-License-Identifier: MIT
// Scripts of events and faults. Their commands are read and not executed.
#include "softdev/shim/script.hpp"

#include <chrono>
#include <string>

#include "tests/fuzz/target.hpp"

namespace verbena::softdev {
namespace {

using fuzz::require;

void run_script_text(fuzz::input input) {
  const std::string text = fuzz::text_of(input);
  if (text.starts_with('@')) return;  // the name of a file
  const auto got = read_script("fuzz", text);
  if (!got) {
    require(got.error().kind() == error_kind::invalid_argument);
    require(got.error().message().find("line ") != std::string::npos);
    return;
  }
  std::size_t bytes = 0;
  std::string again;
  for (const script_step& each : *got) {
    require(each.act != nullptr && each.after >= std::chrono::microseconds(0) &&
            each.after <= std::chrono::days(1));
    require(text.find(each.text) != std::string::npos);
    bytes += each.text.size();
    again += each.text + ";";
  }
  require(bytes <= text.size());
  // The texts of the steps are a script with the same steps.
  const auto second = read_script("fuzz", again);
  require(second && second->size() == got->size());
  for (std::size_t i = 0; i < got->size(); ++i) require((*second)[i].after == (*got)[i].after);
}

void script_seeds(fuzz::seed_folder& into) {
  into.add("port", "port 1 down; 20ms port 1 up\n");
  into.add("faults",
           "fail rem_access_err delivered at=3 qp=17\nfail 12 every=2 opcode=send,rdma_write\n"
           "rnr times=2 timer=12 opcode=send\ndelay 500us probability=0.5 seed=7 count=3\n"
           "seed 9; clear-faults");
  into.add("when", "when at=2 opcode=rdma_read do revoke-region key=0x10");
  into.add("nested", "when at=1 do when every=2 do overrun-cq index=1");
  into.add("objects", "revoke-region index=2; overrun-cq index=1; peer-exit; peer-exit pid=1234");
  into.add("device",
           "gid-change; gid-move; lid-change 5; pkey-change; pkey-change 1 0xffff; sm-change\n"
           "client-reregister; speed-change; device-fatal; clock 77");
  into.add("comment", "# nothing\n\n 1s speed-change # later\n;;\n");
  into.add("invalid", "fail nothing; rnr timer=32; delay 2");
}

const fuzz::target scripts("script", run_script_text, script_seeds);

}  // namespace
}  // namespace verbena::softdev
