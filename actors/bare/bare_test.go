package bare

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/internal/questions"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// roleOf says for each message of the roles' protocols which role of another task it is a request to, or why it is none.
var roleOf = map[protoreflect.Name]string{
	"Claim": questions.Directory, "Known": questions.Directory, "Leaves": questions.Directory, "Left": questions.Directory, "Forget": questions.Directory,
	"Adopt": questions.Worker, "ClearContainers": questions.Worker, "RunPartition": questions.Worker,
	"CancelStep": questions.Master, "Drain": questions.Master,

	"Note": noAnswer, "Tensors": noAnswer, "AbortStep": noAnswer, "DropSession": noAnswer,
	"Homes": answers, "PartitionDone": answers, "StepCancelled": answers,
	"Resource": part, "Part": part, "Plan": part, "Rights": part, "Scope": part, "Patterns": part, "Pattern": part, "Transfer": part,
	"AdmitSession": own, "RemoveSession": own, "RemoveSessions": own, "AttachConnection": own, "ConnectionClosed": own, "LeaseExpired": own,
}

const (
	noAnswer = "nobody waits for an answer"
	answers  = "it answers another one"
	part     = "it is a part of others"
	own      = "it is for the roles of the same task"
)

// start starts the roles of a task without devices.
func start(t *testing.T, end func(time.Duration)) *Task {
	log := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond), actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	b, err := Start(Config{System: system, Name: "/job:go/replica:0/task:0", Boot: 7, Events: &view.Events{}, Complete: func(*view.Query, *view.Task) {}, End: end, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		system.Shutdown()
	})
	return b
}

// TestRolesAnswer checks that each request to a role of another task is answered by that of a task without devices: nobody waits for a timeout.
func TestRolesAnswer(t *testing.T) {
	b := start(t, nil)
	requests := 0
	for _, file := range []string{"actors/wire/directory.proto", "actors/wire/worker.proto", "actors/wire/master.proto"} {
		d, err := protoregistry.GlobalFiles.FindFileByPath(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Messages().Len() {
			m := d.Messages().Get(i)
			role := roleOf[m.Name()]
			switch role {
			case questions.Directory, questions.Worker, questions.Master:
			case "":
				t.Errorf("%s: it is not said whether %s is a request to a role of another task", file, m.Name())
				continue
			default:
				continue
			}
			kind, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
			if err != nil {
				t.Fatal(err)
			}
			requests++
			var q any = kind.New().Interface()
			if m.Name() == "RunPartition" {
				q = &wire.Parcel{Message: q.(proto.Message)}
			}
			answer, err := questions.Ask[any](t.Context(), b.Asker, b.Name(), role, q, 10*time.Second)
			if err != nil {
				t.Errorf("%s: %v", m.Name(), err)
				continue
			}
			if p, ok := answer.(*wire.Parcel); ok {
				answer = p.Message
			}
			if f, can := answer.(interface{ GetFailure() *wire.Failure }); can && refuses[m.Name()] != status.CodeOf(f.GetFailure().Err()) {
				t.Errorf("%s: %v", m.Name(), f.GetFailure().Err())
			}
		}
	}
	if requests < 10 {
		t.Errorf("only %d requests", requests)
	}
}

// refuses are the codes of requests that need devices, or a program that ends its task on request.
var refuses = map[protoreflect.Name]status.Code{"Claim": status.Unavailable, "Adopt": status.Unavailable, "RunPartition": status.Unavailable, "Drain": status.FailedPrecondition}

// TestLooks checks what operators ask.
func TestLooks(t *testing.T) {
	ended := make(chan time.Duration, 1)
	b := start(t, func(within time.Duration) { ended <- within })
	for range 3 {
		b.config.Events.Add("something", "x", "")
	}
	seen, err := b.Ask(t.Context(), b.Name(), &view.Query{Limit: 2})
	if err != nil || seen.GetTask() != b.Name() || len(seen.GetEvents()) != 2 || seen.GetOmitted()["events"] != 1 || seen.GetProcess().GetBoot() != "7" {
		t.Errorf("%v, %v", seen, err)
	}
	if seen, err := b.Ask(t.Context(), b.Name(), &view.Query{Sections: []string{"links"}}); err != nil || len(seen.GetEvents()) != 0 {
		t.Errorf("%v, %v", seen, err)
	}
	if g, err := b.AskGraph(t.Context(), &view.GraphQuery{Task: b.Name(), Session: "s"}); err != nil || g.GetKnown() || g.GetSession() != "s" {
		t.Errorf("%v, %v", g, err)
	}
	if r, err := b.AskTrace(t.Context(), b.Name(), &view.TraceQuery{Duration: 1}); err != nil || r.GetReason() != "" || r.GetClock() == 0 {
		t.Errorf("%v, %v", r, err)
	}
	if session, known, cancelled, err := b.CancelStep(t.Context(), b.Name(), 1, "me", ""); session != "" || known || cancelled || err != nil {
		t.Errorf("%q, %v, %v, %v", session, known, cancelled, err)
	}
	if err := b.Drain(t.Context(), b.Name(), time.Second, "me"); err != nil || <-ended != time.Second {
		t.Errorf("%v", err)
	}
}
