// SPDX-License-Identifier: MIT
// The connection of a rank to the store, and the answers that have not arrived yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/net/store_message.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/error.hpp"
#include "verbena/base/function_ref.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/membership.hpp"
#include "verbena/net/store_client.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Returns a description of a rank for errors.
[[nodiscard]] std::string to_text(const membership& who);

/// A message to the store that the store answers once.
struct asked {
  enum class kind : std::uint8_t {
    entry,      ///< a hello or a proof
    exchange,   ///< an exchange with the name `name`
    agreement,  ///< a step of a renewal
    value       ///< a request about a value, or a check
  };
  std::string_view call;  ///< the function in errors
  kind what = kind::entry;
  std::string_view name = {};
};

/// Returns the message of a request with this number.
using encode_request = function_ref<blob(std::uint32_t number)>;

/// An exchange or agreement whose deadline has passed before its answer.
struct abandoned_request {
  std::uint32_t number;
  asked::kind what;
  std::string name;  ///< of an exchange or of the function of an agreement
};

/// The state of a store after it has closed a connection.
enum class store_state : std::uint8_t {
  unknown,  ///< it has not answered in time, or it was not checked
  runs,     ///< it greets another connection
  ended,    ///< its host refuses another connection
  silent    ///< its host has answered no packet for about 25 s
};

/// The connection to a store. Must not be moved while a receive is in progress.
///
/// If a deadline passes, the answer is abandoned: it is received and ignored later, so the
/// connection remains usable. The store closes a connection that sends a message before the answer
/// to an exchange or agreement. Therefore the next request waits for an abandoned answer.
struct store_link {
  store_link(bringup::stream with, const membership& of);

  /// Handles a message of the store. Returns true for news about ranks, and for answers that no
  /// call waits for. Returns false if the message is an answer that this rank waits for, or the
  /// last message of the store. Errors: `protocol` for an unexpected answer.
  [[nodiscard]] result<bool> take_news(const store_message& from);
  /// Returns true if an answer or the rest of a message has not arrived yet.
  [[nodiscard]] bool is_expecting() const noexcept {
    return awaited != 0 || awaits_entry || abandoned || receiving;
  }
  /// Records an answer after which the store closes the connection.
  void keep_last(const store_answer& answer);
  void add(std::uint32_t each, std::vector<std::uint32_t>& to) const;
  /// Begins to receive a message. Precondition: the socket is readable.
  void begin_receive();
  /// Records that the connection has failed, and returns the error. If the store has closed the
  /// connection between two messages and without a reason, it has probably ended: begins to connect
  /// to it again, for at most 2 s, to check whether it still runs. Later calls continue this
  /// without blocking, or until their deadlines, and repeat it while there is no answer. If TCP has
  /// ended the connection because the host of the store did not answer for 25 s, begins this too.
  /// Other errors are those of the network, of time limits and of the protocol.
  [[nodiscard]] error lose(error why);
  /// Begins the check.
  void begin_greeting();
  /// Records the result of the check. If rank 0 has the store, and the store has ended or its host
  /// is silent, records that rank 0 has left.
  void conclude(store_state found);

  /// Applies the limit of the store to messages in both directions.
  void set_limit(std::size_t bytes) noexcept {
    is_admitted = true;
    max_message_bytes = bytes;
    stream.set_max_blob_bytes(bytes);
  }

  bringup::stream stream;
  membership who;
  bringup::address address;  // of the store
  std::size_t max_message_bytes = store_client::max_message_bytes;
  std::optional<steps<blob>> receiving;  // a message that is not complete yet
  bool is_in_message = false;            // a part of that message has arrived
  bool is_admitted = false;
  std::vector<std::uint32_t> departed;   // in the order of departure
  std::vector<std::uint32_t> returning;  // subset of departed
  std::uint32_t last_number = 0;         // number of the last request
  std::uint32_t awaited = 0;             // number of the expected answer; 0: none
  bool awaits_entry = false;             // an answer to a hello or proof
  std::optional<abandoned_request> abandoned;
  std::optional<abandoned_request> missed;  // succeeded after its deadline here
  bool is_behind = false;  // a late agreement succeeded on the other ranks or is outdated
  // An agreement was sent and its result is not known; or is_behind.
  bool is_agreement_open = false;
  std::optional<store_failed> last_answer;         // the reason why the store closes the connection
  std::optional<error> failure;                    // of the connection
  store_state state = store_state::unknown;        // after the store has closed the connection
  std::optional<steps<bringup::stream>> greeting;  // the check whether it runs
  deadline next_greeting = deadline::never();      // after a check without an answer
  deadline silent_at = deadline::never();  // its host is silent if it answers no check until then
  bool has_rank_0 = true;                  // rank 0 is a member
};

/// Returns the error of a call after the connection has failed: with the process that has the
/// store, its address, the likely cause and the remedy. Precondition: link.failure.
[[nodiscard]] error explain_failure(std::string_view call, const store_link& link);

/// Receives messages that the store has sent between answers, without blocking.
void receive_news(store_link& link);

/// Sends a request and returns the answer, or nullopt if the deadline passes first. First waits for
/// an abandoned answer. If the deadline passes during this wait, sends nothing. The deadline is
/// exceeded by up to 2 s while the store does not read the request.
///
/// Errors: those of bringup::stream, which end the connection; `protocol` for a malformed message
/// or an unexpected answer; `invalid_argument` if the message exceeds the limit of the store;
/// `timed_out` for an exchange after an exchange or agreement that succeeded only on the other
/// ranks.
[[nodiscard]] result<std::optional<store_answer>> ask_store(store_link& link, const asked& what,
                                                            encode_request encode, deadline until);

}  // namespace verbena::inline VERBENA_ABI::net::detail
