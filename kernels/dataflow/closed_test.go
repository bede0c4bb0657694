package dataflow_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/dataflow"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// by returns a step of a session.
func by(session string) *kernels.Step {
	step := kt.NewStep()
	step.Origin = kernels.Origin{Step: 7, Session: session, Master: "/job:worker/replica:0/task:0"}
	return step
}

// closing matches what each op reports of a queue or barrier that the session "first" has closed.
func closing(what, again string) *regexp.Regexp {
	return regexp.MustCompile(` It was ` + what + `,? \S+ ago \(\S+\) by session first of /job:worker/replica:0/task:0(, before this step came)?` + again + `$`)
}

// TestClosedQueuesSayByWhom closes each kind of queue in the table, and checks each op of the table on a closed queue and on one that is
// closed while the op waits.
func TestClosedQueuesSayByWhom(t *testing.T) {
	types := []tensor.DType{tensor.Int64, tensor.Int32}
	one, many := []any{i64(1), kt.I32(nil, 1)}, []any{kt.I64(kt.S(2), 1, 2), kt.I32(kt.S(2), 1, 2)}
	// The ops by their inputs besides the queue. Those with nil do not fail.
	uses := map[string][]any{
		"QueueEnqueue": one, "QueueEnqueueMany": many, "QueueDequeue": {}, "QueueDequeueMany": {kt.I32(nil, 3)}, "QueueDequeueUpTo": {kt.I32(nil, 3)},
		"QueueClose": {}, "QueueSize": nil, "QueueIsClosed": nil,
	}
	used := map[string]bool{}
	for _, maker := range dataflow.Table().Ops() {
		stem, version := strings.TrimSuffix(maker, "V2"), ""
		if strings.HasSuffix(maker, "V2") {
			version = "V2"
		}
		if !strings.HasSuffix(stem, "Queue") || stem == "FakeQueue" { // FakeQueue is another queue's name
			continue
		}
		for _, op := range dataflow.Table().Ops() {
			use := strings.TrimSuffix(op, "V2")
			if !strings.HasPrefix(op, "Queue") || strings.HasSuffix(op, "V2") != (version == "V2") {
				continue
			}
			inputs, known := uses[use]
			if used[use] = true; !known {
				t.Errorf("%s is an op on queues that this test does not know", op)
			}
			if inputs == nil {
				continue
			}
			for _, name := range []string{"q", ""} {
				t.Run(fmt.Sprintf("%s %s %q", maker, op, name), func(t *testing.T) {
					d := kt.NewDevice(t)
					declared, shapes := types, []tensor.Shape{{}, {}}
					if strings.HasPrefix(maker, "Priority") { // the first component is the priority
						declared, shapes = types[1:], shapes[1:]
					}
					attrs := kt.Attrs{"component_types": declared, "Tcomponents": types, "shapes": shapes, "capacity": 2, "min_after_dequeue": 0,
						"seed": 1, "seed2": 2, "container": "", "shared_name": name, "timeout_ms": -1, "cancel_pending_enqueues": false}
					made := d.Run(t, kt.Op{Type: maker, Attrs: attrs, Outputs: 1, Session: "s"})
					queue := func() any {
						if version == "" {
							return made[0].Ref
						}
						return made[0].Tensor.Retain()
					}
					outputs := 0
					if strings.Contains(op, "Dequeue") {
						outputs = 2
					}
					with := func(inputs []any) []any {
						all := []any{queue()}
						for _, in := range inputs {
							all = append(all, in.(*tensor.Tensor).Retain())
						}
						return all
					}
					attrs = maps.Clone(attrs)
					attrs["component_types"] = types
					shut := kt.Op{Type: "QueueClose" + version, Attrs: attrs, Step: by("first")}
					again := ""
					if name != "" {
						again = `, and stays closed: a pipeline.Producer of a Go or Python program opens it anew, tf.raw_ops.DestroyResourceOp\(resource=queue.queue_ref\) or a reset of its container deletes it`
					}
					second := kt.Op{Type: op, Attrs: attrs, Outputs: outputs, Step: by("second")}
					// The op waits when the queue is closed. That does not end enqueues.
					if outputs > 0 {
						waiting := kt.Start(t, d, second, with(inputs)...)
						d.Run(t, shut, queue())
						expectClosed(t, (<-waiting).Err, closing("closed after 0 elements", again))
					} else {
						d.Run(t, kt.Op{Type: "QueueEnqueue" + version, Attrs: attrs}, with(one)...)
						d.Run(t, shut, queue())
					}
					out, err := d.Try(second, with(inputs)...)
					for _, v := range out {
						v.Release()
					}
					expectClosed(t, err, closing(`closed after \d elements?`, again))
					for _, v := range made {
						v.Release()
					}
				})
			}
		}
	}
	for _, use := range slices.Sorted(maps.Keys(uses)) {
		if !used[use] {
			t.Errorf("no table has %s", use)
		}
	}
}

// TestClosedBarriersSayByWhom is the same for the ops on barriers.
func TestClosedBarriersSayByWhom(t *testing.T) {
	attrs := kt.Attrs{"component_types": []tensor.DType{tensor.Int32}, "shapes": []tensor.Shape{{}}, "capacity": -1, "container": "", "shared_name": "b",
		"component_index": 0, "T": tensor.Int32, "allow_small_batch": false, "wait_for_incomplete": false, "timeout_ms": -1, "cancel_pending_enqueues": false}
	uses := map[string][]any{
		"BarrierInsertMany": {kt.Str(kt.S(1), "k"), kt.I32(kt.S(1), 1)}, "BarrierTakeMany": {kt.I32(nil, 1)}, "BarrierClose": {},
		"BarrierReadySize": nil, "BarrierIncompleteSize": nil,
	}
	for _, op := range dataflow.Table().Ops() {
		if !strings.HasPrefix(op, "Barrier") || op == "Barrier" {
			continue
		}
		inputs, known := uses[op]
		if !known {
			t.Errorf("%s is an op on barriers that this test does not know", op)
		}
		if inputs == nil {
			continue
		}
		t.Run(op, func(t *testing.T) {
			d := kt.NewDevice(t)
			made := d.Run(t, kt.Op{Type: "Barrier", Attrs: attrs, Outputs: 1, Session: "s"})
			d.Run(t, kt.Op{Type: "BarrierClose", Attrs: attrs, Step: by("first")}, made[0].Ref)
			all := []any{made[0].Ref}
			for _, in := range inputs {
				all = append(all, in.(*tensor.Tensor).Retain())
			}
			outputs := 0
			if op == "BarrierTakeMany" {
				outputs = 3
			}
			_, err := d.Try(kt.Op{Type: op, Attrs: attrs, Outputs: outputs, Step: by("second")}, all...)
			expectClosed(t, err, closing("closed", `, and stays closed: a reset of its container deletes it`))
			for _, v := range made {
				v.Release()
			}
		})
	}
}

func i64(v int64) *tensor.Tensor { return kt.I64(nil, v) }

func expectClosed(t *testing.T, err error, want *regexp.Regexp) {
	t.Helper()
	switch status.CodeOf(err) {
	case status.Cancelled, status.OutOfRange:
		if want.MatchString(err.Error()) {
			return
		}
	}
	t.Errorf("the error is %v: %v; want %v", status.CodeOf(err), err, want)
}
