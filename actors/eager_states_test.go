package actors

import (
	"context"
	"errors"
	"testing"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
)

func TestEagerStates(t *testing.T) {
	main, ps, ps1, calls := spreadCluster(t)
	task := main.node.task
	all := []string{psTask, eagerTask, ps1Task, psTask}
	states := func() []error {
		t.Helper()
		got, err := task.EagerStates(t.Context(), EagerPeer{}, all)
		if err != nil || len(got) != len(all) {
			t.Fatal(got, err)
		}
		return got
	}
	if err := errors.Join(states()...); err != nil {
		t.Error(err)
	}
	ps.Close(ps.View()) // as if the task had been restarted
	got := states()
	wantError(t, got[0], status.Unavailable, psTask, "Perhaps the worker was restarted")
	wantError(t, got[3], status.Unavailable, psTask)
	if err := errors.Join(got[1], got[2]); err != nil {
		t.Error(err)
	}
	calls.failing(func(ctx context.Context, _ *corepb.QueueItem) error { // as if the task were frozen
		<-ctx.Done()
		return status.From(ctx.Err())
	})
	main.session.config.Experimental = &corepb.ConfigProto_Experimental{CoordinationConfig: &corepb.CoordinationServiceConfig{HeartbeatTimeoutInMs: 20}}
	got = states()
	wantError(t, got[2], status.Unavailable, ps1Task)
	if got[1] != nil {
		t.Errorf("the task itself: %v", got[1])
	}
	calls.failing(nil)
	got, err := task.EagerStates(t.Context(), EagerPeer{}, []string{"/job:worker/replica:0/task:9"})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, got[0], status.InvalidArgument, "Unexpected task /job:worker/replica:0/task:9")
	stranger := EagerPeer{May: func(*EagerContext) error { return status.Errorf(status.PermissionDenied, "it is another client's") }}
	_, err = task.EagerStates(t.Context(), stranger, all)
	wantError(t, err, status.Internal, "Coordination service is not enabled")
	for _, c := range []*eagerClient{main, ps1} {
		c.close()
	}
}

// TestQuestionsAreBounded checks that questions for the state of many tasks do not multiply: each task that is asked takes a goroutine and a call.
func TestQuestionsAreBounded(t *testing.T) {
	main, _, ps1, calls := spreadCluster(t)
	task := main.node.task
	asked, answer := make(chan struct{}), make(chan struct{})
	calls.failing(func(context.Context, *corepb.QueueItem) error {
		asked <- struct{}{}
		<-answer
		return nil
	})
	alice := EagerPeer{Who: "alice"}
	all := []string{psTask, ps1Task}
	done := make(chan error)
	go func() {
		_, err := task.EagerStates(t.Context(), alice, all)
		done <- err
	}()
	<-asked
	<-asked
	task.eager.mu.Lock()
	questions := &task.eager.questions
	if questions.all != len(all) || questions.of["alice"] != len(all) {
		t.Errorf("%d questions are counted, %d of them alice's", questions.all, questions.of["alice"])
	}
	questions.mostOf = 3
	task.eager.mu.Unlock()
	_, err := task.EagerStates(t.Context(), alice, all)
	wantError(t, err, status.ResourceExhausted, "alice on "+main.node.name, "questions for the state of other tasks")
	close(answer)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if questions.all != 0 || len(questions.of) != 0 {
		t.Errorf("%d questions of %d peers are counted when all have been answered", questions.all, len(questions.of))
	}
	for _, c := range []*eagerClient{main, ps1} {
		c.close()
	}
}
