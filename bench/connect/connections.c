// SPDX-License-Identifier: MIT
// Measures the time in which two processes of this host connect, until the client has received the
// server's acceptance: by TCP, or by librdmacm with a queue pair on each side. Connections are made
// sequentially. Prints the median in nanoseconds. Arguments: tcp or rdma, the number of
// connections.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void check(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static struct sockaddr_in loopback(uint16_t port) {
  struct sockaddr_in address;
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_port = port;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static void serve_tcp(int tell) {
  struct sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  check(bind(listener, (struct sockaddr*)&address, length) == 0, "bind");
  check(listen(listener, 16) == 0, "listen");
  check(getsockname(listener, (struct sockaddr*)&address, &length) == 0, "getsockname");
  check(write(tell, &address.sin_port, sizeof address.sin_port) > 0, "write");
  char byte = 0;
  for (;;) {
    const int peer = accept(listener, NULL, NULL);
    check(peer >= 0, "accept");
    check(write(peer, &byte, 1) == 1, "write");
    check(read(peer, &byte, 1) >= 0, "read");  // until the client closes
    close(peer);
  }
}

static double connect_tcp(uint16_t port) {
  const struct sockaddr_in address = loopback(port);
  char byte;
  const double start = now_ns();
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  check(connect(fd, (const struct sockaddr*)&address, sizeof address) == 0, "connect");
  check(read(fd, &byte, 1) == 1, "read");
  const double end = now_ns();
  close(fd);
  return end - start;
}

// The objects shared by all queue pairs of a process.
static struct ibv_pd* pd;
static struct ibv_cq* cq;

static void create_qp(struct rdma_cm_id* id) {
  if (pd == NULL) {
    pd = ibv_alloc_pd(id->verbs);
    check(pd != NULL, "ibv_alloc_pd");
    cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
    check(cq != NULL, "ibv_create_cq");
  }
  struct ibv_qp_init_attr wanted;
  memset(&wanted, 0, sizeof wanted);
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.cap.max_send_wr = wanted.cap.max_recv_wr = 1;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  check(rdma_create_qp(id, pd, &wanted) == 0, "rdma_create_qp");
}

// Waits for an event of the expected type and returns its identifier.
static struct rdma_cm_id* expect(struct rdma_event_channel* events, enum rdma_cm_event_type kind) {
  struct rdma_cm_event* event;
  check(rdma_get_cm_event(events, &event) == 0, "rdma_get_cm_event");
  if (event->event != kind) {
    fprintf(stderr, "%s instead of %s\n", rdma_event_str(event->event), rdma_event_str(kind));
    exit(1);
  }
  struct rdma_cm_id* const id = event->id;
  rdma_ack_cm_event(event);
  return id;
}

static void destroy(struct rdma_cm_id* id) {
  rdma_destroy_qp(id);
  rdma_destroy_id(id);
}

static void serve_rdma(int tell) {
  struct sockaddr_in address = loopback(0);
  struct rdma_event_channel* const requests = rdma_create_event_channel();
  struct rdma_event_channel* const events = rdma_create_event_channel();
  struct rdma_cm_id* listener;
  check(requests != NULL && events != NULL, "rdma_create_event_channel");
  check(rdma_create_id(requests, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  check(rdma_bind_addr(listener, (struct sockaddr*)&address) == 0, "rdma_bind_addr");
  check(rdma_listen(listener, 16) == 0, "rdma_listen");
  const uint16_t port = rdma_get_src_port(listener);
  check(write(tell, &port, sizeof port) > 0, "write");
  for (;;) {
    struct rdma_cm_id* const id = expect(requests, RDMA_CM_EVENT_CONNECT_REQUEST);
    check(rdma_migrate_id(id, events) == 0, "rdma_migrate_id");
    create_qp(id);
    check(rdma_accept(id, NULL) == 0, "rdma_accept");
    expect(events, RDMA_CM_EVENT_ESTABLISHED);
    expect(events, RDMA_CM_EVENT_DISCONNECTED);
    destroy(id);
  }
}

static double connect_rdma(uint16_t port) {
  static struct rdma_event_channel* events;
  if (events == NULL) events = rdma_create_event_channel();
  check(events != NULL, "rdma_create_event_channel");
  struct sockaddr_in address = loopback(port);
  struct rdma_cm_id* id;
  const double start = now_ns();
  check(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
  check(rdma_resolve_addr(id, NULL, (struct sockaddr*)&address, 2000) == 0, "rdma_resolve_addr");
  expect(events, RDMA_CM_EVENT_ADDR_RESOLVED);
  check(rdma_resolve_route(id, 2000) == 0, "rdma_resolve_route");
  expect(events, RDMA_CM_EVENT_ROUTE_RESOLVED);
  create_qp(id);
  check(rdma_connect(id, NULL) == 0, "rdma_connect");
  expect(events, RDMA_CM_EVENT_ESTABLISHED);
  const double end = now_ns();
  check(rdma_disconnect(id) == 0, "rdma_disconnect");
  expect(events, RDMA_CM_EVENT_DISCONNECTED);
  destroy(id);
  return end - start;
}

static int ascending(const void* one, const void* other) {
  const double a = *(const double*)one;
  const double b = *(const double*)other;
  return (a > b) - (a < b);
}

int main(int argc, char** argv) {
  const int count = argc == 3 ? atoi(argv[2]) : 0;
  const int rdma = argc == 3 && strcmp(argv[1], "rdma") == 0;
  if (count < 1 || (!rdma && strcmp(argv[1], "tcp") != 0)) {
    fprintf(stderr, "usage: connections tcp|rdma COUNT\n");
    return 2;
  }
  int ends[2];
  check(pipe(ends) == 0, "pipe");
  const pid_t server = fork();
  check(server >= 0, "fork");
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (rdma ? serve_rdma : serve_tcp)(ends[1]);
  }
  close(ends[1]);
  uint16_t port;
  check(read(ends[0], &port, sizeof port) == sizeof port, "the server");
  double* const times = calloc((size_t)count, sizeof *times);
  check(times != NULL, "calloc");
  for (int i = 0; i < count; ++i) times[i] = (rdma ? connect_rdma : connect_tcp)(port);
  qsort(times, (size_t)count, sizeof *times, ascending);
  printf("%.0f\n", times[count / 2]);
  free(times);
  kill(server, SIGKILL);
  return 0;
}
