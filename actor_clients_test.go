package troupe

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/client"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// echoes answer with what they are asked, and Empty with their sender's task. BoolValue is answered as a kept request of an actor that is about
// to stop, and UInt32Value not at all.
var echoes = WithActor("echo", func(c *ActorContext, arguments any) (Actor, error) {
	return ActorFunc(func(c *ActorContext, message any) {
		var err error
		switch m := message.(type) {
		case *emptypb.Empty:
			err = c.Reply(wrapperspb.String(c.Sender().Task()))
		case *wrapperspb.BoolValue:
			kept := c.Keep()
			c.Stop()
			err = kept.Reply(m)
		case *wrapperspb.UInt32Value:
		case proto.Message:
			err = c.Reply(m)
		}
		if err != nil {
			panic(err)
		}
	}), nil
})

// outsideClient returns a client of a server, as a program that is no task has it.
func outsideClient(t *testing.T, s *Server) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), s.Target())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestClientsUseActors has a client of one task use the actors of each.
func TestClientsUseActors(t *testing.T) {
	parallel(t)
	all := company(t, 2, counters, echoes)
	c := outsideClient(t, all[0])
	for i, on := range all {
		counter, err := c.SpawnActor(deadline(t), "counter", fmt.Sprintf("w:%d", i), "", wrapperspb.Int64(5))
		if err != nil {
			t.Fatal(err)
		}
		if counter.Task() != on.Task() || !strings.HasPrefix(counter.Name(), "counter-") {
			t.Errorf("it is %s on %s", counter.Name(), counter.Task())
		}
		for n := range 100 {
			if err := counter.Send(deadline(t), wrapperspb.Int64(int64(n))); err != nil {
				t.Fatal(err)
			}
		}
		if sum, err := client.Ask[*wrapperspb.Int64Value](deadline(t), counter, &emptypb.Empty{}); err != nil || sum.Value != 4955 {
			t.Errorf("the sum on %s is %v, %v", on.Task(), sum, err)
		}
		if err := counter.SendJSON(deadline(t), `{"@type": "type.googleapis.com/google.protobuf.Int64Value", "value": "45"}`); err != nil {
			t.Error(err)
		}
		if sum, err := counter.AskJSON(deadline(t), `{"@type": "google.protobuf.Empty"}`); err != nil || sum != `{"@type":"type.googleapis.com/google.protobuf.Int64Value","value":"5000"}` {
			t.Errorf("the sum on %s is %s, %v", on.Task(), sum, err)
		}
		if sum, err := client.Ask[*emptypb.Empty](deadline(t), counter, &emptypb.Empty{}); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "*wrapperspb.Int64Value, not a *emptypb.Empty") {
			t.Errorf("an answer of another type: %v, %v", sum, err)
		}
		if err := counter.End(deadline(t)); err != nil {
			t.Error(err)
		}
		if err := counter.End(deadline(t)); status.CodeOf(err) != status.NotFound {
			t.Errorf("a second end: %v", err)
		}
	}
	// Without a task, an actor is the asked server's.
	if _, err := c.SpawnActor(deadline(t), "echo", "", "local", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := all[0].Spawn(deadline(t), "echo", ActorAt(all[1].Task(), "other"), nil); err != nil {
		t.Fatal(err)
	}
	local := c.Actor("", "local")
	for name, message := range map[string]proto.Message{
		"a message":      structpb.NewStringValue("x"),
		"an Any":         func() proto.Message { a, _ := anypb.New(wrapperspb.Int64(1)); return a }(),
		"a large one":    wrapperspb.Bytes(bytes.Repeat([]byte("large"), MaxActorMessage/6)),
		"the last words": wrapperspb.Bool(true),
	} {
		actor := local
		if name == "the last words" {
			actor = c.Actor("/job:w/task:1", "other")
			if via, err := client.Ask[*structpb.Value](deadline(t), c.Actor("", "local"), structpb.NewBoolValue(true)); err != nil || !via.GetBoolValue() {
				t.Errorf("%v, %v", via, err)
			}
		}
		if got, err := client.Ask[proto.Message](deadline(t), actor, message); err != nil || !proto.Equal(got, message) {
			t.Errorf("%s came back as %v, %v", name, got, err)
		}
	}
	// The caller looks like one of Ask.
	if sender, err := client.Ask[*wrapperspb.StringValue](deadline(t), local, &emptypb.Empty{}); err != nil || sender.Value != all[0].Task() {
		t.Errorf("the sender is of %v, %v", sender, err)
	}
}

// TestClientsForward has an actor forward a client's requests to an actor of another task.
func TestClientsForward(t *testing.T) {
	parallel(t)
	porters := WithActor("porter", func(*ActorContext, any) (Actor, error) {
		return ActorFunc(func(c *ActorContext, _ any) {
			if err := c.Forward(ActorAt("w:2", "sum")); err != nil {
				panic(err)
			}
		}), nil
	})
	all := company(t, 3, counters, porters)
	c := outsideClient(t, all[0])
	if _, err := c.SpawnActor(deadline(t), "counter", "w:2", "sum", wrapperspb.Int64(7)); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		porter, err := c.SpawnActor(deadline(t), "porter", fmt.Sprintf("w:%d", i), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if sum, err := client.Ask[*wrapperspb.Int64Value](deadline(t), porter, &emptypb.Empty{}); err != nil || sum.Value != 7 {
			t.Errorf("through %s: %v, %v", porter.Task(), sum, err)
		}
		if sum, err := porter.AskJSON(deadline(t), `{"@type": "google.protobuf.Empty"}`); err != nil || !strings.Contains(sum, `"value":"7"`) {
			t.Errorf("through %s: %s, %v", porter.Task(), sum, err)
		}
		if _, err := client.Ask[proto.Message](deadline(t), porter, wrapperspb.String("fail")); status.CodeOf(err) != status.OutOfRange || !strings.Contains(err.Error(), "no text") {
			t.Errorf("through %s: %v", porter.Task(), err)
		}
	}
}

// TestErrorsOfClients checks the code and the text of what a client cannot have.
func TestErrorsOfClients(t *testing.T) {
	parallel(t)
	all := company(t, 2, counters, echoes)
	c := outsideClient(t, all[0])
	for _, task := range []string{"w:0", "w:1"} {
		for _, kind := range []string{"counter", "echo"} {
			if _, err := c.SpawnActor(deadline(t), kind, task, kind, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask := func(actor *client.Actor, message proto.Message) error {
		_, err := client.Ask[proto.Message](deadline(t), actor, message)
		return err
	}
	askJSON := func(actor *client.Actor, message string) error {
		_, err := actor.AskJSON(deadline(t), message)
		return err
	}
	spawn := func(kind, task, name string, arguments proto.Message) error {
		_, err := c.SpawnActor(deadline(t), kind, task, name, arguments)
		return err
	}
	nested := strings.Repeat(`{"@type": "google.protobuf.Any", "value": `, 200) + "{}" + strings.Repeat("}", 200)
	for _, task := range []string{"w:0", "w:1"} {
		counter, echo := c.Actor(task, "counter"), c.Actor(task, "echo")
		for name, test := range map[string]struct {
			err  error
			code status.Code
			text string
		}{
			"the actor's own":    {ask(counter, wrapperspb.String("fail")), status.OutOfRange, "no text"},
			"no such actor":      {ask(c.Actor(task, "nobody"), &emptypb.Empty{}), status.NotFound, "There is no actor nobody on /job:w/replica:0/task:" + task[2:]},
			"no answer":          {ask(echo, wrapperspb.UInt32(1)), status.Unimplemented, "neither answered nor kept a request of type google.protobuf.UInt32Value"},
			"no name":            {ask(c.Actor(task, ""), &emptypb.Empty{}), status.InvalidArgument, `"" is not a name of an actor`},
			"a request's name":   {c.Actor(task, "?1").Send(deadline(t), &emptypb.Empty{}), status.InvalidArgument, `"?1" is not a name of an actor`},
			"no message":         {ask(echo, nil), status.InvalidArgument, "must not be nil"},
			"too large":          {ask(echo, wrapperspb.Bytes(make([]byte, MaxActorMessage))), status.ResourceExhausted, "google.protobuf.BytesValue to an actor takes 1048580 bytes, the limit is 1048576"},
			"far too large":      {ask(echo, wrapperspb.Bytes(make([]byte, 4*MaxActorMessage))), status.ResourceExhausted, "A request about an actor takes 4194"},
			"JSON too large":     {askJSON(echo, strings.Repeat(" ", MaxActorMessage+1)), status.ResourceExhausted, "takes 1048577 bytes as JSON, the limit is 1048576"},
			"no JSON":            {askJSON(echo, "{"), status.InvalidArgument, "The JSON is not that of a message"},
			"JSON without type":  {askJSON(echo, "{}"), status.InvalidArgument, "does not name the type of its message"},
			"JSON too deep":      {askJSON(echo, nested), status.InvalidArgument, "exceeded max recursion depth"},
			"unknown JSON":       {askJSON(echo, `{"@type": "a.b.C"}`), status.InvalidArgument, `The program of /job:w/replica:0/task:` + task[2:] + ` does not know messages of type "a.b.C"`},
			"unknown, nested":    {askJSON(echo, `{"@type": "google.protobuf.Any", "value": {"@type": "x/a.b.C"}}`), status.InvalidArgument, `does not know messages of type "a.b.C"`},
			"a bad field":        {askJSON(echo, `{"@type": "google.protobuf.Int64Value", "value": "x"}`), status.InvalidArgument, "The JSON is not that of a message"},
			"a system message":   {askJSON(echo, `{"@type": "actor.PoisonPill"}`), status.InvalidArgument, "actor.PoisonPill belongs to the actor system"},
			"no kind":            {spawn("clown", task, "", nil), status.NotFound, `has no actors of kind "clown"; it has counter, echo`},
			"taken":              {spawn("echo", task, "echo", nil), status.AlreadyExists, "There is an actor echo already"},
			"refused arguments":  {spawn("counter", task, "", wrapperspb.Int64(-1)), status.InvalidArgument, "a sum of -1 is impossible"},
			"an unknown task":    {ask(c.Actor("w:2", "echo"), &emptypb.Empty{}), status.InvalidArgument, "/job:w/replica:0/task:2 is not a task of the cluster"},
			"no task":            {ask(c.Actor("10.0.0.1:2222", "echo"), &emptypb.Empty{}), status.InvalidArgument, `Could not interpret "10.0.0.1:2222" as a task name`},
			"the end of nothing": {c.Actor(task, "nobody").End(deadline(t)), status.NotFound, "There is no actor nobody"},
		} {
			if status.CodeOf(test.err) != test.code || !strings.Contains(fmt.Sprint(test.err), test.text) {
				t.Errorf("%s on %s: %v, want %v, %q", name, task, test.err, test.code, test.text)
			}
		}
	}
}

// TestClientsWaitForNobody checks waits for actors that do not exist, and one that is given up. TestClientsInSimulatedTime has the others.
func TestClientsWaitForNobody(t *testing.T) {
	parallel(t)
	all := company(t, 2, counters)
	c := outsideClient(t, all[0])
	for _, on := range all {
		nobody := c.Actor(on.Task(), "nobody")
		if ended, err := nobody.Wait(deadline(t)); err != nil || status.CodeOf(ended) != status.NotFound {
			t.Errorf("nobody ended with %v, %v", ended, err)
		}
	}
	counter, err := c.SpawnActor(deadline(t), "counter", "w:1", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	gaveUp, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if ended, err := counter.Wait(gaveUp); status.CodeOf(err) != status.DeadlineExceeded || ended != nil {
		t.Errorf("the wait ended with %v, %v", ended, err)
	}
	if _, err := c.Actor("", "?").Wait(deadline(t)); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a wait for nobody's name: %v", err)
	}
}

// TestClientsSpawnHalf checks that a client spawns half of the actors that a task may have, whichever task it asks, that the program spawns the rest, and
// that a client gets the room of its own actors that end.
func TestClientsSpawnHalf(t *testing.T) {
	parallel(t)
	const limit = 10
	all := company(t, 2, counters, WithActorLimit(limit))
	on, spawned := all[1], []*client.Actor{}
	for i := 0; ; i++ {
		a, err := outsideClient(t, all[i%2]).SpawnActor(deadline(t), "counter", "w:1", "", nil)
		if err != nil {
			if i != limit/2 || status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "5 actors of "+on.Task()+" are there because of the client ") {
				t.Errorf("actor %d of a client: %v", i, err)
			}
			break
		}
		spawned = append(spawned, a)
	}
	var own []ActorRef
	for i := 0; ; i++ {
		ref, err := all[i%2].Spawn(deadline(t), "counter", ActorAt(on.Task(), ""), nil)
		if err != nil {
			if i != limit/2 || status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "has 10 actors") {
				t.Errorf("actor %d of the program: %v", i, err)
			}
			break
		}
		own = append(own, ref)
	}
	for range 3 {
		if err := spawned[0].End(deadline(t)); err != nil {
			t.Fatal(err)
		}
		a, err := outsideClient(t, all[0]).SpawnActor(deadline(t), "counter", "w:1", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		spawned[0] = a
	}
	if err := all[0].EndActor(deadline(t), own[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := outsideClient(t, all[0]).SpawnActor(deadline(t), "counter", "w:1", "", nil); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("the client got the room of the program: %v", err)
	}
	if _, err := NewLocalServer(t.Context(), silent, WithActorLimit(-1)); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a negative limit: %v", err)
	}
}
