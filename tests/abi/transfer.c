// SPDX-License-Identifier: MIT
// A verbs program without any code of Verbena: for each device named on the command line, an RC
// queue pair that is connected to itself sends, writes and waits for a completion event. All
// devices are open at the same time. Prints `NAME: ok` for each; `--list` prints all names.
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { message_bytes = 64, port = 1, deadline_ms = 20000, most_devices = 8 };

struct endpoint {
  const char* name;
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct ibv_mr* mr;
  struct ibv_comp_channel* channel;
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  struct ibv_ah_attr self;
  char memory[3 * message_bytes];
};

static void check(int good, const char* name, const char* what) {
  if (good) return;
  fprintf(stderr, "%s: %s failed: ", name, what);
  perror(NULL);
  exit(1);
}

// Fills in the route of the queue pair to itself: the port's first GID, or its LID.
static void describe_self(struct endpoint* end) {
  struct ibv_port_attr attr;
  check(ibv_query_port(end->context, port, &attr) == 0, end->name, "ibv_query_port");
  check(attr.state == IBV_PORT_ACTIVE, end->name, "finding the port active");
  end->self.port_num = port;
  end->self.dlid = attr.lid;
  if (attr.link_layer != IBV_LINK_LAYER_ETHERNET) return;
  struct ibv_gid_entry entries[32];
  ssize_t count = ibv_query_gid_table(end->context, entries, 32, 0);
  check(count > 0, end->name, "ibv_query_gid_table");
  ssize_t chosen = 0;
  while (chosen < count - 1 && entries[chosen].gid_type != IBV_GID_TYPE_ROCE_V2) ++chosen;
  end->self.is_global = 1;
  end->self.grh.dgid = entries[chosen].gid;
  end->self.grh.sgid_index = (uint8_t)entries[chosen].gid_index;
  end->self.grh.hop_limit = 1;
}

static struct ibv_device* find(struct ibv_device** list, const char* name) {
  for (; *list; ++list)
    if (strcmp(ibv_get_device_name(*list), name) == 0) return *list;
  return NULL;
}

static void create(struct endpoint* end, struct ibv_device** list) {
  struct ibv_device* device = find(list, end->name);
  check(device != NULL, end->name, "finding the device");
  end->context = ibv_open_device(device);
  check(end->context != NULL, end->name, "ibv_open_device");
  struct ibv_device_attr attr;
  check(ibv_query_device(end->context, &attr) == 0, end->name, "ibv_query_device");
  check(attr.node_guid == ibv_get_device_guid(device), end->name, "comparing GUIDs");
  describe_self(end);
  end->pd = ibv_alloc_pd(end->context);
  check(end->pd != NULL, end->name, "ibv_alloc_pd");
  end->mr = ibv_reg_mr(end->pd, end->memory, sizeof end->memory,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  check(end->mr != NULL, end->name, "ibv_reg_mr");
  end->channel = ibv_create_comp_channel(end->context);
  check(end->channel != NULL, end->name, "ibv_create_comp_channel");
  end->cq = ibv_create_cq(end->context, 8, end, end->channel, 0);
  check(end->cq != NULL, end->name, "ibv_create_cq");
  struct ibv_qp_init_attr wanted = {
      .send_cq = end->cq,
      .recv_cq = end->cq,
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1};
  end->qp = ibv_create_qp(end->pd, &wanted);
  check(end->qp != NULL, end->name, "ibv_create_qp");
}

static void connect_to_self(struct endpoint* end) {
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT, .port_num = port, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  check(ibv_modify_qp(end->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
        end->name, "ibv_modify_qp to INIT");
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_1024,
                              .dest_qp_num = end->qp->qp_num,
                              .rq_psn = 7,
                              .max_dest_rd_atomic = 1,
                              .min_rnr_timer = 12,
                              .ah_attr = end->self};
  check(ibv_modify_qp(end->qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
        end->name, "ibv_modify_qp to RTR");
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                              .sq_psn = 7,
                              .timeout = 14,
                              .retry_cnt = 7,
                              .rnr_retry = 7,
                              .max_rd_atomic = 1};
  check(ibv_modify_qp(end->qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
        end->name, "ibv_modify_qp to RTS");
}

// The memory has space for three messages: the source, the receive buffer, the target of the write.
static void post(struct endpoint* end) {
  for (int i = 0; i < message_bytes; ++i) end->memory[i] = (char)(i * 3 + end->name[0]);
  struct ibv_sge inbox = {.addr = (uintptr_t)end->memory + message_bytes,
                          .length = message_bytes,
                          .lkey = end->mr->lkey};
  struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = &inbox, .num_sge = 1};
  struct ibv_recv_wr* bad_receive;
  check(ibv_req_notify_cq(end->cq, 0) == 0, end->name, "ibv_req_notify_cq");
  check(ibv_post_recv(end->qp, &receive, &bad_receive) == 0, end->name, "ibv_post_recv");
  struct ibv_sge outbox = {
      .addr = (uintptr_t)end->memory, .length = message_bytes, .lkey = end->mr->lkey};
  struct ibv_send_wr send = {.wr_id = 3, .sg_list = &outbox, .num_sge = 1, .opcode = IBV_WR_SEND};
  struct ibv_send_wr write = {.wr_id = 2,
                              .next = &send,
                              .sg_list = &outbox,
                              .num_sge = 1,
                              .opcode = IBV_WR_RDMA_WRITE,
                              .wr.rdma = {.remote_addr = (uintptr_t)end->memory + 2 * message_bytes,
                                          .rkey = end->mr->rkey}};
  struct ibv_send_wr* bad_send;
  check(ibv_post_send(end->qp, &write, &bad_send) == 0, end->name, "ibv_post_send");
}

static void wait_for_event(struct endpoint* end) {
  struct pollfd waiting = {.fd = end->channel->fd, .events = POLLIN};
  check(poll(&waiting, 1, deadline_ms) == 1, end->name, "waiting for a completion event");
  struct ibv_cq* cq = NULL;
  void* user = NULL;
  check(ibv_get_cq_event(end->channel, &cq, &user) == 0, end->name, "ibv_get_cq_event");
  check(cq == end->cq && user == end, end->name, "comparing the event");
  ibv_ack_cq_events(cq, 1);
  check(ibv_req_notify_cq(cq, 0) == 0, end->name, "ibv_req_notify_cq");
}

static void complete(struct endpoint* end) {
  for (int pending = 3; pending > 0;) {
    struct ibv_wc wc;
    int count = ibv_poll_cq(end->cq, 1, &wc);
    check(count >= 0, end->name, "ibv_poll_cq");
    if (count == 0) {
      wait_for_event(end);
      continue;
    }
    if (wc.status != IBV_WC_SUCCESS) fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
    check(wc.status == IBV_WC_SUCCESS, end->name, "a work request");
    --pending;
  }
  check(memcmp(end->memory, end->memory + message_bytes, message_bytes) == 0, end->name,
        "comparing what was sent");
  check(memcmp(end->memory, end->memory + 2 * message_bytes, message_bytes) == 0, end->name,
        "comparing what was written");
}

static void destroy(struct endpoint* end) {
  check(ibv_destroy_qp(end->qp) == 0, end->name, "ibv_destroy_qp");
  check(ibv_destroy_cq(end->cq) == 0, end->name, "ibv_destroy_cq");
  check(ibv_destroy_comp_channel(end->channel) == 0, end->name, "ibv_destroy_comp_channel");
  check(ibv_dereg_mr(end->mr) == 0, end->name, "ibv_dereg_mr");
  check(ibv_dealloc_pd(end->pd) == 0, end->name, "ibv_dealloc_pd");
  check(ibv_close_device(end->context) == 0, end->name, "ibv_close_device");
}

int main(int argc, char** argv) {
  static struct endpoint ends[most_devices];
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  check(list != NULL, "all devices", "ibv_get_device_list");
  if (argc > 1 && strcmp(argv[1], "--list") == 0) {
    for (int i = 0; i < count; ++i) printf("%s\n", ibv_get_device_name(list[i]));
    ibv_free_device_list(list);
    return 0;
  }
  const int used = argc - 1 < most_devices ? argc - 1 : most_devices;
  for (int i = 0; i < used; ++i) ends[i].name = argv[i + 1];
  for (int i = 0; i < used; ++i) create(&ends[i], list);
  ibv_free_device_list(list);
  for (int i = 0; i < used; ++i) connect_to_self(&ends[i]);
  for (int i = 0; i < used; ++i) post(&ends[i]);
  for (int i = 0; i < used; ++i) complete(&ends[i]);
  for (int i = 0; i < used; ++i) destroy(&ends[i]);
  for (int i = 0; i < used; ++i) printf("%s: ok\n", ends[i].name);
  return 0;
}
