// SPDX-License-Identifier: MIT
#include "verbena/base/post_status.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>

#include "src/base/list_refusal.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

const char* name_of(posting_verb verb) {
  switch (verb) {
    case posting_verb::post_send:
      return "ibv_post_send";
    case posting_verb::wr_complete:
      return "ibv_wr_complete";
    case posting_verb::post_receive:
      return "ibv_post_recv";
    case posting_verb::post_shared_receive:
      return "ibv_post_srq_recv";
    case posting_verb::unknown:
      break;
  }
  return "posting";
}

// The name of the queue and the option that sets its size.
struct queue_words {
  const char* name;
  const char* option;
};

queue_words words_of(posting_verb verb) {
  switch (verb) {
    case posting_verb::post_send:
    case posting_verb::wr_complete:
      return {"send queue", "max_send_wr"};
    case posting_verb::post_receive:
      return {"receive queue", "max_recv_wr"};
    case posting_verb::post_shared_receive:
      return {"shared receive queue", "max_wr"};
    case posting_verb::unknown:
      break;
  }
  return {"queue", "max_send_wr or max_recv_wr"};
}

std::string object_of(posting_verb verb, std::uint32_t queue_pair) {
  if (verb == posting_verb::post_shared_receive) return "shared receive queue";
  if (queue_pair == 0) return {};
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "queue pair 0x%x", queue_pair);
  return text.data();
}

std::string likely_cause(int code, posting_verb verb) {
  const queue_words words = words_of(verb);
  switch (code) {
    case ENOMEM:
    case ENOSPC:  // returned by the extended interface of rxe
      return std::string("the ") + words.name +
             " is full: poll completions before posting more, or create it with a larger " +
             words.option + (code == ENOSPC ? detail::refused_list : "");
    case EINVAL:
      return "the state of the queue pair does not accept the request, or the request has too many "
             "slices, too much inline data or an operation that the queue pair was not created for";
    case EOPNOTSUPP:
      return "the device does not support this operation";
    case ENODEV:
    case EIO:
      return "the device was removed or failed";
    default:
      return "";
  }
}

std::string counts_of(std::uint32_t accepted) {
  if (accepted == 0) return "the queue accepted no request";
  const std::string count = std::to_string(accepted);
  return "the queue accepted " + count + " requests and refused the request at index " + count;
}

}  // namespace

verbena::error post_status::error() const {
  VERBENA_ASSERT(!has_value(), "error() of a post_status that succeeded: check the result first");
  const std::string object = object_of(verb_, queue_pair_);
  if (capacity_ == 0) {
    const std::string cause = likely_cause(code_, verb_);
    return verbena::error::from_errno(code_, name_of(verb_), object,
                                      counts_of(count_) + (cause.empty() ? "" : "; " + cause));
  }
  const std::string capacity = std::to_string(capacity_);
  const bool sends =
      verb_ != posting_verb::post_receive && verb_ != posting_verb::post_shared_receive;
  std::string text = "no request was posted: ";
  if (!has_long_lists_)
    text += std::to_string(capacity_ + count_) + " requests were added to a batch of " + capacity +
            "; open it with " + (sends ? "start_send<" : "start_receive<") +
            std::to_string(capacity_ + count_) + ">() or submit earlier";
  else
    text += "the lists of inline data of " + std::to_string(count_) +
            " requests exceed the room of the batch; open it with a larger capacity or submit "
            "earlier";
  return verbena::error::from_errno(code_, name_of(verb_), object, text);
}

}  // namespace verbena::inline VERBENA_ABI
