// SPDX-License-Identifier: MIT
#include "verbena/net/membership.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "src/net/etcd.hpp"
#include "src/net/pmix.hpp"
#include "verbena/net/network.hpp"

namespace verbena::inline VERBENA_ABI::net {
namespace {

constexpr std::size_t max_name_bytes = 255;
constexpr std::uint16_t default_store_port = 29500;

error refuse(std::string_view what, const std::string& why) {
  return error::invalid_argument("membership", std::string(what), why);
}

std::optional<std::string_view> variable(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::optional<std::string_view>(text) : std::nullopt;
}

result<std::uint32_t> number_of(const char* name, std::string_view text, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value > most)
    return refuse(name, fmt::format("{}={} is not a number from 0 to {}", name, text, most));
  return value;
}

struct names_of_launcher {
  const char* rank;
  const char* size;
};
// mpirun precedes Slurm: in a job of Slurm, processes of mpirun inherit the variables of the job
// step in which mpirun runs.
constexpr std::array launchers{names_of_launcher{"RANK", "WORLD_SIZE"},
                               names_of_launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                               names_of_launcher{"SLURM_PROCID", "SLURM_NTASKS"}};

/// Returns the variable names of the first launcher that has set a variable, or nullptr without a
/// launcher.
const names_of_launcher* find_launcher() {
  for (const auto& names : launchers)
    if (variable(names.rank) || variable(names.size)) return &names;
  return nullptr;
}

result<void> read_rank(membership& out, const names_of_launcher& names) {
  const auto rank = variable(names.rank);
  const auto size = variable(names.size);
  if (!rank || !size) {
    const char* const missing = rank ? names.size : names.rank;
    return refuse(missing,
                  fmt::format("{} is set, but {} is not", rank ? names.rank : names.size, missing));
  }
  VERBENA_TRY(out.rank, number_of(names.rank, *rank, max_ranks - 1));
  VERBENA_TRY(out.size, number_of(names.size, *size, max_ranks));
  if (out.rank >= out.size)
    return refuse(names.rank, fmt::format("{}={} is not less than {}={}", names.rank, *rank,
                                          names.size, *size));
  return {};
}

result<membership> read_network(const std::string& file, const names_of_launcher* launcher) {
  VERBENA_TRY(const auto hosts, network::read(file));
  if (launcher == nullptr) {
    VERBENA_TRY(const auto rank, hosts.own_rank());
    return hosts.membership_of(rank);
  }
  membership place;
  VERBENA_TRY_VOID(read_rank(place, *launcher));
  if (place.size != hosts.size())
    return refuse(launcher->size, fmt::format("{}={}, but {} has {} hosts", launcher->size,
                                              place.size, file, hosts.size()));
  return hosts.membership_of(place.rank);
}

/// Reads VERBENA_STORE. Returns true if it is set.
result<bool> read_separate_store(membership& out) {
  const auto separate = variable("VERBENA_STORE");
  if (!separate) return false;
  auto parsed = bringup::parse_address(*separate);
  if (!parsed || parsed->port == 0)
    return refuse("VERBENA_STORE", fmt::format("VERBENA_STORE={} is not host:port", *separate));
  out.store = *std::move(parsed);
  out.host = store_host::separate;
  return true;
}

result<std::uint16_t> port_of(const char* name, std::string_view text) {
  VERBENA_TRY(const auto number, number_of(name, text, 65535));
  if (number == 0) return refuse(name, fmt::format("{}=0 is not a port that peers can use", name));
  return static_cast<std::uint16_t>(number);
}

result<void> read_store_of_rank_0(membership& out) {
  const auto host = variable("MASTER_ADDR");
  const auto port = variable("MASTER_PORT");
  const auto own_port = variable("VERBENA_STORE_PORT");
  if (!host || (!port && !own_port))
    return refuse(host ? "MASTER_PORT" : "MASTER_ADDR",
                  fmt::format("{} is not set; MASTER_ADDR and MASTER_PORT are the host and the TCP "
                              "port at which rank 0 opens the store",
                              host ? "MASTER_PORT" : "MASTER_ADDR"));
  out.store.host = *host;
  if (own_port) {
    VERBENA_TRY(out.store.port, port_of("VERBENA_STORE_PORT", *own_port));
    return {};
  }
  VERBENA_TRY(out.store.port, port_of("MASTER_PORT", *port));
  // The agent of torchrun listens at MASTER_PORT itself. PyTorch also compares with this text.
  if (variable("TORCHELASTIC_USE_AGENT_STORE") != "True") return {};
  if (out.store.port == 65535)
    return refuse(
        "MASTER_PORT",
        "MASTER_PORT=65535 is the port of the agent of torchrun, and rank 0 would open the "
        "store at the next port; set VERBENA_STORE_PORT on all ranks to another port");
  ++out.store.port;
  return {};
}

// Returns true if a launcher provides PMIx and no variable that takes precedence is set.
bool is_place_by_pmix() {
  for (const char* const each : {"RANK", "VERBENA_STORE", "VERBENA_NETWORK", "VERBENA_ETCD",
                                 "VERBENA_SERVICE", "MASTER_ADDR", "MASTER_PORT"})
    if (variable(each)) return false;
  return variable("PMIX_NAMESPACE").has_value();
}

result<void> read_pmix(membership& out) {
  VERBENA_TRY(const auto job, detail::ask_pmix());
  out.rank = job.rank;
  out.size = job.size;
  out.host = store_host::pmix;
  return {};
}

// The parts of a host name NAME-N.
struct ordinal_host {
  std::string name;
  std::uint32_t ordinal = 0;
};

result<ordinal_host> read_host_name() {
  std::array<char, 256> buffer{};
  if (::gethostname(buffer.data(), buffer.size() - 1) != 0)
    return error::from_errno(errno, "gethostname");
  std::string host = buffer.data();
  host.erase(std::min(host.find('.'), host.size()));
  const auto dash = host.rfind('-');
  std::uint32_t ordinal = 0;
  const char* const end = host.data() + host.size();
  if (dash != std::string::npos && dash != 0) {
    const auto [stop, code] = std::from_chars(host.data() + dash + 1, end, ordinal);
    if (code == std::errc() && stop == end && ordinal < max_ranks)
      return ordinal_host{.name = host.substr(0, dash), .ordinal = ordinal};
  }
  return refuse("VERBENA_SERVICE",
                fmt::format("VERBENA_SERVICE is set, but the host name {} does not end with a dash "
                            "and a number from 0 to {}, as those of a StatefulSet; set RANK and "
                            "MASTER_ADDR instead",
                            host, max_ranks - 1));
}

result<void> read_service(membership& out, std::string_view service) {
  auto parsed = bringup::parse_address(service, default_store_port);
  if (!parsed || parsed->port == 0)
    return refuse("VERBENA_SERVICE",
                  fmt::format("VERBENA_SERVICE={} is not a name or name:port", service));
  VERBENA_TRY(const auto self, read_host_name());
  const auto* const launcher = find_launcher();
  const bool has_rank = launcher != nullptr && variable(launcher->rank).has_value();
  if (has_rank) {
    VERBENA_TRY_VOID(read_rank(out, *launcher));
  } else {
    const auto size = variable("WORLD_SIZE");
    if (!size)
      return refuse("WORLD_SIZE",
                    "VERBENA_SERVICE is set, but WORLD_SIZE, the number of ranks, is "
                    "not; it is the number of replicas of the StatefulSet");
    VERBENA_TRY(out.size, number_of("WORLD_SIZE", *size, max_ranks));
    out.rank = self.ordinal;
    if (out.rank >= out.size)
      return refuse("WORLD_SIZE",
                    fmt::format("the number {} of the host name {}-{} is not less than "
                                "WORLD_SIZE={}",
                                self.ordinal, self.name, self.ordinal, out.size));
  }
  out.store = {.host = fmt::format("{}-0.{}", self.name, parsed->host), .port = parsed->port};
  out.host = store_host::service;
  return {};
}

result<void> read_variables(membership& out) {
  const auto* const launcher = find_launcher();
  const auto service = variable("VERBENA_SERVICE");
  if (service && !variable("VERBENA_STORE") && !variable("VERBENA_NETWORK") &&
      !variable("VERBENA_ETCD"))
    return read_service(out, *service);
  const auto file = variable("VERBENA_NETWORK");
  if (file) {
    VERBENA_TRY(out, read_network(std::string(*file), launcher));
  } else if (launcher != nullptr) {
    VERBENA_TRY_VOID(read_rank(out, *launcher));
  } else {
    return refuse("RANK",
                  "RANK and WORLD_SIZE are not set; start the processes with a launcher such "
                  "as torchrun, srun or mpirun, or set both variables");
  }
  VERBENA_TRY(const bool is_separate, read_separate_store(out));
  if (is_separate || file) return {};
  const auto etcd = variable("VERBENA_ETCD");
  if (!etcd) return read_store_of_rank_0(out);
  out.etcd = *etcd;
  out.host = store_host::etcd;
  return {};
}

}  // namespace

result<membership> membership::from_environment() {
  membership made;
  VERBENA_TRY_VOID(is_place_by_pmix() ? read_pmix(made) : read_variables(made));
  if (const auto name = variable("VERBENA_GROUP")) made.name = *name;
  if (const auto secret = variable("VERBENA_SECRET")) made.secret = *secret;
  VERBENA_TRY_VOID(made.check());
  return made;
}

result<void> membership::check() const {
  if (size == 0 || size > max_ranks)
    return refuse("size",
                  fmt::format("a group of {} ranks is not in the range 1 to {}", size, max_ranks));
  if (rank >= size)
    return refuse("rank", fmt::format("rank {} is not less than the size {}", rank, size));
  if (host == store_host::etcd) {
    if (auto parsed = detail::parse_etcd(etcd); !parsed) return std::move(parsed).error();
  } else if (store.host.empty() && host != store_host::pmix) {
    return refuse("store", "the store has no host");
  } else if (store.port == 0 &&
             (host == store_host::separate || (host != store_host::pmix && size > 1))) {
    return refuse(
        "store", fmt::format("the port of the store at {} is 0, so the other ranks cannot find it; "
                             "set the same port on all ranks, or use store_host::etcd or "
                             "store_host::pmix",
                             store.host));
  }
  if (name.size() > max_name_bytes)
    return refuse("name", fmt::format("a name of {} bytes exceeds the limit of {} bytes",
                                      name.size(), max_name_bytes));
  return {};
}

}  // namespace verbena::inline VERBENA_ABI::net
