package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/roles"
)

// directory is the actor that keeps this task's share of where named resources live that nothing
// pins to a task. The home of a name is decided once, by the task that the name's hash and the
// declared cluster give: it is the default device of who asks first.
type directory struct {
	task  *Task
	homes map[resourceName]string
}

type resourceName struct{ container, kind, name string }

// maxHomes bounds a directory's share.
const maxHomes = 1 << 20

// startDirectory spawns the directory.
func (t *Task) startDirectory() (err error) {
	d := &directory{task: t, homes: map[resourceName]string{}}
	t.directory, err = t.spawn(roles.Spec{Name: directoryName, Kind: "directory", Receive: d.Receive})
	return err
}

// Receive answers claims and forgets containers. See wire/directory.proto.
func (d *directory) Receive(c actor.Context) {
	if c.Sender() == nil { // nobody waits for the answer
		return
	}
	switch m := c.Message().(type) {
	case *wire.Claim:
		homes := &wire.Homes{Devices: make([]string, len(m.Resources))}
		for i, r := range m.Resources {
			name := resourceName{r.Container, r.Kind, r.Name}
			home, ok := d.homes[name]
			if !ok {
				if len(d.homes) >= maxHomes {
					c.Respond(&wire.Homes{Failure: failure(status.Errorf(status.ResourceExhausted,
						"The directory of %s holds %d names, its limit: reset containers that are not used any more", d.task.name, maxHomes))})
					return
				}
				home = r.Device
				d.homes[name] = home
			}
			homes.Devices[i] = home
		}
		c.Respond(homes)
	case *wire.Forget:
		containers := m.Containers
		if len(containers) == 0 {
			containers = []string{""}
		}
		for name := range d.homes {
			for _, container := range containers {
				if name.container == container {
					delete(d.homes, name)
				}
			}
		}
		c.Respond(&wire.Done{})
	}
}

// answerTime bounds the wait for an answer of another task's actor that computes nothing.
const answerTime = 4 * time.Second

// homes asks the directory for the devices of resources: one message to each task that has a
// share in the answer, and all at the same time.
func (t *Task) homes(ctx context.Context, resources []place.Resource) ([]string, error) {
	tasks := t.Cluster.Tasks()
	shares := map[string][]int{}
	for i, r := range resources {
		shard := tasks[hash(r.Container, r.Name)%uint64(len(tasks))]
		shares[shard] = append(shares[shard], i)
	}
	homes := make([]string, len(resources))
	err := parallel(ctx, sortedKeys(shares), func(ctx context.Context, shard string) error {
		claim := &wire.Claim{}
		for _, i := range shares[shard] {
			r := resources[i]
			claim.Resources = append(claim.Resources, &wire.Resource{Container: r.Container, Kind: r.Kind, Name: r.Name, Device: r.Default})
		}
		answer, err := ask[*wire.Homes](ctx, t, shard, directoryName, claim)
		if err == nil {
			err = failed(answer.Failure)
		}
		if err != nil {
			return err
		}
		if len(answer.Devices) != len(shares[shard]) {
			return status.Internalf("The directory of %s answered %d of %d names", shard, len(answer.Devices), len(shares[shard]))
		}
		for k, i := range shares[shard] {
			homes[i] = answer.Devices[k]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return homes, nil
}

func hash(parts ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, p := range parts {
		for i := range len(p) {
			h = (h ^ uint64(p[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	return h ^ h>>32
}

// ask sends a request to an actor of a task, the own one or another, and waits for its answer.
func ask[A any](ctx context.Context, t *Task, task, name string, request any) (A, error) {
	var none A
	pid := actor.NewPID(t.System.Address(), name)
	if task != t.name {
		p, err := t.Cluster.Peer(ctx, task)
		if err != nil {
			return none, err
		}
		pid = actor.NewPID(p.Address(), name)
	}
	wait := answerTime
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	if wait <= 0 {
		return none, status.From(context.DeadlineExceeded)
	}
	answer, err := t.System.Root.RequestFuture(pid, request, wait).Result()
	if err != nil {
		return none, status.Errorf(status.Unavailable, "%s did not answer a %s within %v: %v", task, typeName(request), wait.Round(time.Millisecond), err)
	}
	a, ok := answer.(A)
	if !ok {
		return none, status.Internalf("%s answered a %s with a %s", task, typeName(request), typeName(answer))
	}
	return a, nil
}
