/* membership/member_propose.c — rules 3, 4, 5 and 8: how a generation is proposed, promised and
 * begun. Start reading at member_consider_proposing().
 */
#include <stdio.h>
#include <string.h>

#include "collective/allreduce_schedule.h"
#include "membership/member_impl.h"

static int compare_ids(const struct qr_member *m, const struct qr_gen_id *a,
                       const struct qr_gen_id *b) {
    if (m->opt.faults.id_is_number) return a->number < b->number ? -1 : a->number > b->number;
    return qr_gen_id_compare(a, b);
}

static bool is_own_name(const struct qr_member *m, const struct qr_member_name *name) {
    return name->index == m->opt.index && is_process(m, name);
}

/* The peer reports this generation as active, or is yet to report after its Begin. */
static bool works_in_generation(const struct qr_member *m, uint32_t i) {
    return qr_gen_id_compare(&m->peer[i].beat.active, &m->generation.begin.id) == 0 ||
           member_is_trusted(m, i);
}

/* All members are still linked pairwise, as the same processes, and none has promised another
 * id. */
static bool generation_works(const struct qr_member *m) {
    const struct qr_begin *b = &m->generation.begin;
    if (!m->active) return false;
    for (uint32_t r = 0; r < b->n_members; r++) {
        uint32_t i = b->member[r].name.index;
        if (!is_process(m, &b->member[r].name)) return false;
        if (i != m->opt.index && !works_in_generation(m, i)) return false;
    }
    return member_all_linked(m, m->members);
}

static bool works_in_other(const struct qr_member *m, uint32_t i) {
    return m->peer[i].known && m->peer[i].beat.phase == QR_PHASE_MEMBER;
}

static bool is_linked_with_all(const struct qr_member *m, uint32_t i, uint64_t set) {
    bool all = true;
    for (; set && all; set &= set - 1) all = member_linked(m, i, (uint32_t)__builtin_ctzll(set));
    return all;
}

/* It did not answer a Propose a moment ago, and has sent nothing since. */
static bool is_unpromised(const struct qr_member *m, const struct peer *p) {
    return p->unpromised_ns && (m->now_ns - p->unpromised_ns < QR_MEMBER_TIMEOUT_NS ||
                                p->received_ns < p->unpromised_ns);
}

/* Greedy choice among the peers linked with this worker: each next index that is linked with all
 * already in the set; members of the last generation first, then members of another, then
 * newcomers. A working generation is the starting point: its members would reject a set that leaves
 * one of them out, this worker included. */
static uint64_t find_set(const struct qr_member *m) {
    uint64_t set = 0, order[3] = {0}, me = index_bit(m->opt.index);
    bool works = generation_works(m);
    if (works) set = m->members;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        const struct peer *p = &m->peer[i];
        if ((set | me) & index_bit(i) || !member_linked(m, m->opt.index, i) || is_unpromised(m, p))
            continue;
        bool first = member_is_established(m, i) || m->opt.faults.newcomers_first;
        order[first ? 0 : works_in_other(m, i) ? 1 : 2] |= index_bit(i);
    }
    for (int k = 0; k < 3; k++)
        for (; order[k]; order[k] &= order[k] - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(order[k]);
            if (is_linked_with_all(m, i, set & ~me)) set |= index_bit(i);
        }
    return set | me;
}

/* ---- texts that name missing peers ---- */
static void format_missing(struct qr_member *m, uint64_t set, char *ret, size_t cap) {
    size_t n = 0;
    unsigned shown = 0, count = 0;
    ret[0] = '\0';
    for (uint32_t i = 0; i < m->opt.n_peers; i++) {
        if ((set & index_bit(i)) || i == m->opt.index) continue;
        count++;
        if (shown == 6 || n + 100 >= cap) continue;
        const char *how = m->peer[i].connected && !member_passes_data(&m->peer[i])
                              ? "no data connection with "
                              : "";
        int k = snprintf(ret + n, cap - n, "%s%s%.90s", shown ? ", " : "", how,
                         qr_member_peer_text(m, i));
        if (k > 0) n += (size_t)k < cap - n ? (size_t)k : cap - n - 1;
        shown++;
    }
    if (count > shown) snprintf(ret + n, cap - n, " and %u more", count - shown);
}

/* ---- proposing ---- */
static uint64_t next_random(struct qr_member *m) { /* splitmix64 */
    uint64_t z = m->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void back_off_proposing(struct qr_member *m) {
    int64_t wait = MS(50) + (int64_t)(next_random(m) % 350) * MS(1);
    wait <<= m->backoff_doublings;
    if (wait > MS(3000)) wait = MS(3000);
    if (m->backoff_doublings < 6) m->backoff_doublings++;
    m->backoff_until_ns = m->now_ns + wait;
}

bool qr_member_awaits_begin(const struct qr_member *m, struct qr_gen_id *ret) {
    *ret = m->promised;
    return m->promised.number && m->promise_exclusive && !m->active;
}

/* Until the next Begin this worker belongs to no generation. Always safe: to the others it is only
 * slow. */
static void suspend_member(struct qr_member *m) {
    m->active = false;
    m->idle_ns = m->now_ns;
    member_emit(m, .kind = QR_ACT_SUSPEND);
    member_heartbeats_now(m); /* Lets the others see at once that the generation no longer works. */
}

static void promise_id(struct qr_member *m, const struct qr_gen_id *id) {
    m->promised = *id;
    m->promised_ns = m->now_ns;
    m->promise_exclusive = true;
    if (id->number > m->highest) m->highest = id->number;
    if (m->active && !m->opt.faults.no_suspend) suspend_member(m);
}

/* Rule 7: all members are new, so another group may have trained on since they started. */
static bool all_starting(const struct qr_member *m, const struct qr_begin *b) {
    if (m->formed || b->member[0].name.index != m->opt.index) return false;
    for (uint32_t r = 1; r < b->n_members; r++)
        if (m->peer[b->member[r].name.index].beat.phase != QR_PHASE_STARTING) return false;
    return true;
}

/* Rule 3: a peer dropped twice in 10 s is banned for 1, 2, 4 ... 30 s. */
void member_dropped(struct qr_member *m, struct peer *p) {
    if (p->dropped_ns && m->now_ns - p->dropped_ns < ONE_DROP_NS) return;
    bool again = p->dropped_ns && m->now_ns - p->dropped_ns < MS(10000);
    p->ban_ns = !again ? 0 : p->ban_ns ? 2 * p->ban_ns : MS(1000);
    if (p->ban_ns > MS(30000)) p->ban_ns = MS(30000);
    if (again) p->banned_until_ns = m->now_ns + p->ban_ns;
    p->dropped_ns = m->now_ns;
}

/* Makes this generation the active one. */
static void enter_generation(struct qr_member *m, const struct qr_begin *b) {
    uint64_t set = 0;
    struct qr_generation *g = &m->generation;
    for (uint32_t r = 0; r < b->n_members; r++) set |= index_bit(b->member[r].name.index);
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        struct peer *p = &m->peer[i];
        if ((set & index_bit(i)) || !member_in_generation(m, i)) continue;
        if (!p->fell_silent) member_dropped(m, p);
        p->fell_silent = false;
    }
    if (b->from_checkpoint) m->split_reductions = b->base_reductions + 1;
    else member_log_own_wrong_state(m, b);
    member_begun_common(m, b);
    g->first = all_starting(m, b);
    g->begin = *b;
    m->members = set;
    g->id_hash = qr_gen_id_hash(&b->id);
    for (uint32_t r = 0; r < b->n_members; r++)
        if (b->member[r].name.index == m->opt.index) g->rank = r;
    m->neighbours = g->rank == 0 ? UINT64_MAX : 0;
    for (uint32_t r = 0; r < b->n_members; r++)
        if (qr_schedule_pairs(b->n_members, g->rank, r))
            m->neighbours |= index_bit(b->member[r].name.index);
    m->active = m->formed = true;
    m->warned_few = false;
    m->begun_ns = m->now_ns;
    m->stream_ns = m->now_ns + member_slow_interval_ns(m);
    m->need_new = false;
    m->backoff_doublings = 0;
    m->pending.on = false;
    member_data_begun(m);
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        m->peer[i].differs_since_ns = -1;
        m->peer[i].turns_ns = m->now_ns;
        m->peer[i].has_begun = qr_gen_id_compare(&m->peer[i].beat.active, &b->id) == 0;
        /* Tells neighbours the interval that holds from now on. */
        if (m->neighbours & index_bit(i)) m->peer[i].due_ns = m->now_ns;
        member_reports_changed(m, i);
    }
    member_emit(m, .kind = QR_ACT_BEGIN, .generation = g);
    member_heartbeats_now(m);
}

static void propose_begin(struct qr_member *m) {
    struct pending *q = &m->pending;
    struct qr_begin *b = &m->out.begin;
    m->out.kind = QR_MESSAGE_BEGIN;
    memset(b, 0, sizeof *b);
    b->id = q->propose.id;
    b->n_members = q->propose.n_members;
    for (uint32_t r = 0; r < b->n_members; r++) {
        b->member[r].name = q->propose.member[r];
        uint32_t i = b->member[r].name.index;
        b->member[r].data_port = i == m->opt.index ? m->opt.data_port : m->peer[i].data_port;
        b->member[r].server = m->peer[i].server;
    }
    q->on = false;
    if (!member_begin_common(m, q, b)) return;
    enum base_choice choice = member_choose_base(q->held, &m->opt.faults, b);
    if (choice == BASE_NONE && m->split_reductions) b->base_reductions = m->split_reductions - 1;
    char text[QR_MESSAGE_TEXT_BYTES], states[QR_MESSAGE_TEXT_BYTES];
    member_states_text(m, q->held, b, states, sizeof states);
    if (choice == BASE_REFUSED_TWICE ||
        (choice == BASE_SPLIT && m->split_reductions == b->base_reductions + 1)) {
        snprintf(
            text, sizeof text, "reduction %llu: %s; %.400s", (unsigned long long)b->base_reductions,
            choice == BASE_SPLIT ? "the workers' states differ a second time, without a majority"
                                 : "its sum failed the coverage check twice",
            states);
        member_end_all(m, QR_DATA_LOSS, text);
        return;
    }
    if (choice == BASE_SPLIT)
        member_log(m, QR_LOG_ERROR,
                   "reduction %llu: the workers' states differ without a majority: all resume from "
                   "the last checkpoint; %s",
                   (unsigned long long)b->base_reductions, states);
    if (choice == BASE_OK) member_log_wrong_states(m, q->held, b);
    struct qr_begin kept = *b; /* m->out is reused below. */
    for (uint32_t r = 0; r < kept.n_members; r++) {
        uint32_t i = kept.member[r].name.index;
        if (i != m->opt.index && m->peer[i].connected) member_send(m, m->peer[i].conn);
    }
    enter_generation(m, &kept);
}

static void propose_set(struct qr_member *m, uint64_t set) {
    struct pending *q = &m->pending;
    struct qr_propose *p = &q->propose;
    memset(p, 0, sizeof *p);
    p->id.number = m->highest + 1;
    p->id.index = m->opt.index;
    memcpy(p->id.incarnation, m->opt.incarnation, QR_INCARNATION_BYTES);
    for (uint64_t rest = set; rest; rest &= rest - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(rest);
        p->member[p->n_members].index = i;
        memcpy(p->member[p->n_members++].incarnation, m->peer[i].incarnation, QR_INCARNATION_BYTES);
    }
    promise_id(m, &p->id);
    q->on = true;
    q->sent_ns = m->now_ns;
    q->promised_ranks = 1; /* The proposer is the lowest index of the set, hence rank 0. */
    q->held[0] = m->held;
    q->common[0] = m->formed ? m->common : (struct qr_common){0};
    q->ring_age_ms[0] = member_ring_age_ms(m);
    m->out.kind = QR_MESSAGE_PROPOSE;
    m->out.propose = *p;
    for (uint64_t rest = set & ~index_bit(m->opt.index); rest; rest &= rest - 1)
        member_send(m, m->peer[__builtin_ctzll(rest)].conn);
    if (p->n_members == 1) propose_begin(m);
}

/* A member of the generation reports another active id, or has promised a greater one, for so long
 * that its Begin must be lost. */
static bool member_differs(struct qr_member *m) {
    bool yes = false;
    int64_t within_ns = member_differs_ns(m);
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        struct peer *p = &m->peer[i];
        if (!member_in_generation(m, i) || !member_reaches(m, i)) continue;
        bool differs = qr_gen_id_compare(&p->beat.active, &m->generation.begin.id) != 0 ||
                       compare_ids(m, &p->beat.promised, &m->generation.begin.id) > 0;
        if (!differs) p->differs_since_ns = -1;
        else if (p->differs_since_ns < 0) p->differs_since_ns = m->now_ns;
        yes = yes || (differs && m->now_ns - p->differs_since_ns >= within_ns);
    }
    return yes;
}

static bool same_as_active(const struct qr_member *m, uint64_t set) {
    const struct qr_begin *b = &m->generation.begin;
    for (uint32_t r = 0; r < b->n_members; r++)
        if (!is_process(m, &b->member[r].name)) return false;
    return m->members == set;
}

/* A member of the set was in a generation, so the next one is not the first. */
static bool any_was_member(const struct qr_member *m, uint64_t set) {
    bool yes = m->formed;
    for (uint64_t rest = set & ~index_bit(m->opt.index); rest && !yes; rest &= rest - 1)
        yes = m->peer[__builtin_ctzll(rest)].beat.phase == QR_PHASE_MEMBER;
    return yes;
}

/* A ring works and answers, but its data streams with this worker are not up yet: a generation
 * without it would be a second ring of the same job. */
static bool other_ring_works(const struct qr_member *m, uint64_t set) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        const struct peer *p = &m->peer[i];
        bool answers = is_responding(p) && !p->gone;
        bool works = p->worked_ns && m->now_ns - p->worked_ns < FORM_GRACE_NS;
        if (!(set & index_bit(i)) && answers && works) return true;
    }
    return false;
}

/* Rule 8: checks that a generation of this set may be proposed now. */
static bool may_propose(struct qr_member *m, uint64_t set) {
    unsigned size = (unsigned)__builtin_popcountll(set);
    bool expired = m->now_ns - m->start_ns >= m->opt.form_timeout_ns;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if ((set & index_bit(i)) && i != m->opt.index)
            expired = expired || m->peer[i].beat.form_expired;
    if (member_n_computing(m, set) < member_min_workers(m)) return false;
    if (any_was_member(m, set)) return true;
    if (member_mismatched(m) || other_ring_works(m, set)) return false;
    if (m->opt.count_known && size == m->opt.n_peers) return true;
    if (!m->opt.count_known && m->now_ns - m->newcomer_ns >= NEWCOMERS_NS) return true;
    return expired;
}

/* A parameter server keeps the state for workers that return, so it waits without a limit and warns
 * at intervals. */
static void warn_waiting(struct qr_member *m, uint64_t set, int64_t waited) {
    int64_t every = m->opt.form_timeout_ns > MS(10000) ? m->opt.form_timeout_ns : MS(10000);
    char missing[480];
    if (m->now_ns - m->warned_waiting_ns < every) return;
    m->warned_waiting_ns = m->now_ns;
    format_missing(m, set, missing, sizeof missing);
    member_log(m, QR_LOG_WARNING,
               "no group for %.0f s: %s%s; this parameter server keeps the state of %llu "
               "reductions and waits",
               (double)waited / 1e9, missing[0] ? missing : "no more workers",
               missing[0] ? " did not answer" : " came",
               (unsigned long long)m->held.applied_reductions);
}

static void check_form_timeout(struct qr_member *m, uint64_t set) {
    int64_t waited = m->now_ns - (m->formed ? m->idle_ns : m->start_ns);
    /* Rule 7: LATEST tells the caller whether that run and its end are this worker's. */
    if (m->others_done && !m->formed) {
        member_stop(m, QR_DEADLINE_EXCEEDED, QR_GOODBYE_LEAVING,
                    "the run ended before this worker joined");
        return;
    }
    if (m->active || waited < m->opt.form_timeout_ns) return;
    if (m->opt.server) {
        warn_waiting(m, set, waited);
        return;
    }
    unsigned size = member_n_computing(m, set);
    bool beside = other_ring_works(m, set); /* Its data stream comes up at the end of a step. */
    if ((beside || size >= member_min_workers(m)) &&
        waited < m->opt.form_timeout_ns + (beside ? BESIDE_NS : FORM_GRACE_NS))
        return;
    char missing[480], text[QR_ERR_MSG_BYTES];
    format_missing(m, set, missing, sizeof missing);
    if (missing[0])
        snprintf(text, sizeof text,
                 "no group within %.0f s: %s did not answer (%u of %zu present, %u needed)",
                 (double)waited / 1e9, missing, size, m->opt.n_peers - m->opt.n_servers,
                 member_min_workers(m));
    else
        snprintf(text, sizeof text,
                 "no group within %.0f s, although all answered: the running group does not admit "
                 "this worker",
                 (double)waited / 1e9);
    member_stop(m, QR_DEADLINE_EXCEEDED, QR_GOODBYE_LEAVING, text);
}

int64_t member_promise_wait_ns(const struct qr_member *m) {
    return PROMISE_WAIT_NS + member_n_further(m) * (m->formed ? PROMISE_GAP_NS : NEWS_GAP_NS);
}

/* A peer with a missing promise is gone. */
static bool promiser_is_gone(const struct qr_member *m) {
    const struct pending *q = &m->pending;
    for (uint32_t r = 0; r < q->propose.n_members; r++) {
        const struct qr_member_name *name = &q->propose.member[r];
        if (q->promised_ranks & index_bit(r)) continue;
        if (!member_reaches(m, name->index) || !is_process(m, name)) return true;
    }
    return false;
}

void member_consider_proposing(struct qr_member *m) {
    struct pending *q = &m->pending;
    if (q->on && promiser_is_gone(m)) q->on = false;
    /* Propose again, without the peers that did not answer. */
    if (q->on && m->now_ns - q->sent_ns >= member_promise_wait_ns(m)) {
        q->on = false;
        for (uint32_t r = 0; r < q->propose.n_members; r++)
            if (!(q->promised_ranks & index_bit(r)))
                m->peer[q->propose.member[r].index].unpromised_ns = m->now_ns;
    }
    bool differs = m->active && member_differs(m);
    if (generation_works(m)) m->worked_ns = m->now_ns;
    uint64_t set = find_set(m);
    unsigned n_computing = member_n_computing(m, set);
    check_form_timeout(m, set);
    /* The generation cannot continue: a stream broke, or too few members are left. A member that
     * may not propose shows the others by its suspension that a new generation is needed. */
    bool few = n_computing < member_min_workers(m);
    if (m->formed && few && m->opt.server && !m->warned_few) {
        m->warned_few = true;
        member_log(m, QR_LOG_WARNING,
                   "too few workers left (%u of %u needed): this parameter server keeps the state "
                   "of %llu reductions and waits",
                   n_computing, member_min_workers(m),
                   (unsigned long long)m->held.applied_reductions);
    }
    if (m->active && (m->need_new || few)) suspend_member(m);
    if (m->over || q->on || m->now_ns < m->backoff_until_ns) return;
    if ((set & (index_bit(m->opt.index) - 1)) || !may_propose(m, set)) return;
    if (m->active && same_as_active(m, set) && !m->need_new && !differs) return;
    bool others = m->promised.number && !m->active && m->promised.index != m->opt.index;
    if (others && m->promise_exclusive && m->now_ns - m->promised_ns < BEGIN_OVERDUE_NS) return;
    propose_set(m, set);
}

/* ---- promising ---- */
/* The proposal names a newcomer and leaves out a member of the last generation that is linked with
 * all members that it names. A moment after the break one of these members proposes it again. */
static bool displaces_member(const struct qr_member *m, uint64_t set) {
    uint64_t established = 0;
    if (!m->worked_ns || m->now_ns - m->worked_ns >= EXCLUSIVE_NS || m->opt.faults.newcomers_first)
        return false;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (member_is_established(m, i)) established |= index_bit(i);
    uint64_t left_out = set & ~established ? established & ~set : 0;
    for (; left_out; left_out &= left_out - 1)
        if (is_linked_with_all(m, (uint32_t)__builtin_ctzll(left_out), set & established))
            return true;
    return false;
}

static const char *find_objection(const struct qr_member *m, uint32_t from,
                                  const struct qr_propose *p, uint64_t set) {
    if (m->ending) return "the run has ended here";
    if (member_is_banned(m, from)) return "the proposer was lost repeatedly a moment ago";
    if (compare_ids(m, &p->id, &m->promised) < 0 && !m->opt.faults.promise_any)
        return "a greater id is promised";
    bool exclusive =
        m->promised.number && m->promise_exclusive && m->now_ns - m->promised_ns < EXCLUSIVE_NS;
    if (exclusive && !is_promised_to(m, from) && m->promised.index < from)
        return "a lower index was promised within the last second";
    bool works = generation_works(m);
    uint64_t left_out = works ? m->members & ~set : 0;
    for (; left_out; left_out &= left_out - 1)
        if (member_linked(m, m->opt.index, (uint32_t)__builtin_ctzll(left_out)))
            return "a reachable member of the generation is left out";
    if (!works && displaces_member(m, set))
        return "a member of the generation is left out for a newcomer";
    return NULL;
}

void member_on_propose(struct qr_member *m, uint32_t from, const struct qr_propose *p) {
    bool mine = false;
    for (uint32_t k = 0; k < p->n_members; k++) mine = mine || is_own_name(m, &p->member[k]);
    if (!mine || p->id.index != from || !same_inc(p->id.incarnation, m->peer[from].incarnation) ||
        p->member[0].index != from)
        return;
    int order = compare_ids(m, &p->id, &m->promised);
    /* Never promise twice. */
    if (order == 0 && !m->opt.faults.id_is_number && !m->opt.faults.promise_any) return;
    if (p->id.number > m->highest) m->highest = p->id.number;
    uint64_t set = 0;
    for (uint32_t k = 0; k < p->n_members; k++) set |= index_bit(p->member[k].index);
    /* A member leaves out others that it has lost: in a large ring its heartbeat may come later. */
    if (member_is_established(m, from)) m->peer[from].reaches &= set | ~m->members;
    const char *why = member_mismatched(m) && !any_was_member(m, set)
                          ? "a worker with other settings answers"
                          : find_objection(m, from, p, set);
    if (why) {
        m->out.kind = QR_MESSAGE_BUSY;
        m->out.busy = (struct qr_busy){.id = p->id, .highest_number = m->highest};
        qr_text_cut(m->out.busy.why, sizeof m->out.busy.why, why);
        member_send(m, m->peer[from].conn);
        return;
    }
    m->pending.on = false; /* A proposer that has promised a greater id sends no Begin. */
    promise_id(m, &p->id);
    m->out.kind = QR_MESSAGE_PROMISE;
    m->out.promise =
        (struct qr_promise){.id = p->id, .held = m->held, .ring_age_ms = member_ring_age_ms(m)};
    if (m->formed) m->out.promise.common = m->common;
    member_send(m, m->peer[from].conn);
}

void member_on_busy(struct qr_member *m, const struct qr_busy *b) {
    if (b->highest_number > m->highest) m->highest = b->highest_number;
    if (!m->pending.on || qr_gen_id_compare(&b->id, &m->pending.propose.id) != 0) return;
    m->pending.on = false;
    back_off_proposing(m);
}

void member_on_promise(struct qr_member *m, uint32_t from, const struct qr_promise *p) {
    struct pending *q = &m->pending;
    if (!q->on || qr_gen_id_compare(&p->id, &q->propose.id) != 0) return;
    for (uint32_t r = 0; r < q->propose.n_members; r++)
        if (q->propose.member[r].index == from && is_process(m, &q->propose.member[r])) {
            q->promised_ranks |= index_bit(r);
            q->held[r] = p->held;
            q->common[r] = p->common;
            q->ring_age_ms[r] = p->ring_age_ms;
        }
    if ((unsigned)__builtin_popcountll(q->promised_ranks) == q->propose.n_members) {
        /* Its own promise reports the present state: a micro-batch finished since the proposal
         * counts. */
        q->held[0] = m->held;
        propose_begin(m);
    }
}

void member_on_begin(struct qr_member *m, uint32_t from, const struct qr_begin *b) {
    bool mine = false, promised = m->promised.number && compare_ids(m, &b->id, &m->promised) == 0;
    for (uint32_t r = 0; r < b->n_members; r++) mine = mine || is_own_name(m, &b->member[r].name);
    if (!mine || b->id.index != from || !same_inc(b->id.incarnation, m->peer[from].incarnation))
        return;
    if (m->opt.faults.begin_without_promise) promised = true;
    /* Accept a Begin once: a repeated one would undo a suspension. */
    if (!promised ||
        (m->generation.begin.n_members && qr_gen_id_compare(&b->id, &m->generation.begin.id) == 0))
        return;
    /* Its own proposal is the greater one. */
    if (m->pending.on && !m->opt.faults.begin_without_promise) return;
    enter_generation(m, b);
}
