// SPDX-License-Identifier: MIT
// fwd.hpp suffices to declare functions with all kinds of public types; nothing else is included.
#include <verbena/fwd.hpp>

struct interface {
  virtual ~interface() = default;
  virtual verbena::result<verbena::protection_domain> allocate(const verbena::context& of,
                                                               verbena::access right) = 0;
  virtual verbena::post_status post(verbena::queue_pair<verbena::rc>& to,
                                    const verbena::send_request& what,
                                    const verbena::local_slice& from,
                                    const verbena::remote_region& at) = 0;
  virtual verbena::operation_result send(verbena::channel& over, const verbena::source& data,
                                         verbena::deadline until) = 0;
  virtual void notice(verbena::completion_status how, verbena::log_level level,
                      verbena::queue_pair_number from) = 0;
  virtual verbena::result<verbena::cm::connection> accept(verbena::cm::listener& at,
                                                          const verbena::gid& peer,
                                                          verbena::remote_key key) = 0;
};

static_assert(sizeof(verbena::completion_status) == 4, "the underlying type is declared");
