package troupe_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/grad"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/train"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/queues/pipeline"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/serve"
	"github.com/troupe-run/troupe/troupetest"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The documents show parts of the functions of this file, which compiles. TestFragmentsOfDocuments checks that they are the same.

func actorsOfAProgram(ctx context.Context, cluster troupe.ClusterSpec, newSum func(*troupe.ActorContext, any) (troupe.Actor, error)) (int64, error) {
	server, err := troupe.NewServer(ctx, cluster, troupe.WithJob("worker"), troupe.WithTask(1), troupe.WithActor("sum", newSum))
	if err != nil {
		return 0, err
	}
	sum, err := server.Spawn(ctx, "sum", troupe.ActorAt("/job:worker/task:0", "votes"), nil)
	if err != nil {
		return 0, err
	}
	err = server.Send(ctx, sum, wrapperspb.Int64(3))
	if err != nil {
		return 0, err
	}
	answer, err := troupe.Ask[*wrapperspb.Int64Value](ctx, server, sum, &emptypb.Empty{})
	return answer.GetValue(), err
}

func greet(_ *node.ActorContext, name string) (string, error) { return "Hello, " + name, nil }

func greetedByANode(ctx context.Context) (string, error) {
	n, err := node.NewLocal(ctx, node.WithActor("greeter", node.Stateless(node.Answer(greet)), node.Virtual{}))
	if err != nil {
		return "", err
	}
	defer n.Stop(ctx)
	answer, err := node.Ask[string](ctx, n, node.VirtualActor("greeter", "first"), "world")
	return answer, err
}

func nodeThatJoins(ctx context.Context) (string, error) {
	n, err := node.JoinCluster(ctx, []string{"10.0.0.1:2222"}, node.WithJob("go"), node.WithActor("greeter", node.Stateless(node.Answer(greet))))
	if err != nil {
		return "", err
	}
	answer, err := node.Ask[string](ctx, n, node.ActorAt("go:0", "one"), "world")
	return answer, err
}

func serverThatKeeps(ctx context.Context, cluster troupe.ClusterSpec) (*troupe.Server, error) {
	server, err := troupe.NewServer(ctx, cluster, troupe.WithDurable("/var/lib/troupe", "jobs", "my_problem_*"))
	return server, err
}

func newSum(*troupe.ActorContext, any) (troupe.Actor, error) {
	var sum int64
	return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
		switch m := message.(type) {
		case *wrapperspb.Int64Value:
			sum += m.Value
		case *emptypb.Empty:
			c.Reply(wrapperspb.Int64(sum))
		}
	}), nil
}

func TestSum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"worker": 2}, troupe.WithActor("sum", newSum))
		sum, err := c.Server("worker:0").Spawn(t.Context(), "sum", troupe.ActorAt("worker:1", "votes"), nil)
		if err != nil {
			t.Fatal(err)
		}
		p := c.Probe("worker:0", "voter")
		p.Watch(sum)
		p.Send(sum, wrapperspb.Int64(3))
		p.Send(sum, wrapperspb.Int64(4))
		p.Send(sum, &emptypb.Empty{}) // asks for the sum
		if got := troupetest.Expect[*wrapperspb.Int64Value](p, time.Second); got.Value != 7 {
			t.Errorf("the sum is %d, not 7", got.Value)
		}
		p.ExpectNothing(time.Hour)
		c.Kill("worker:1")
		if err := p.ExpectEnded(sum, time.Second); status.CodeOf(err) != status.Unavailable {
			t.Errorf("the sum ended with %v, not UNAVAILABLE", err)
		}
	})
}

func programThatIsAServer() {
	serve.Main(troupe.WithActor("sum", newSum))
}

func greeted(ctx context.Context) (string, error) {
	greet := func(_ *troupe.ActorContext, name string) (string, error) { return "Hello, " + name, nil }
	server, err := troupe.NewLocalServer(ctx, troupe.WithActor("greeter", troupe.Stateless(troupe.Answer(greet)), troupe.Virtual{}))
	if err != nil {
		return "", err
	}
	answer, err := troupe.Ask[string](ctx, server, troupe.VirtualActor("greeter", "first"), "world")
	return answer, errors.Join(err, server.Stop(ctx))
}

type Order struct {
	Item  string
	Count int
}

var _ = troupe.RegisterMessage[Order]("shop.Order")

func newShop(*troupe.ActorContext, any) (troupe.Actor, error) {
	stock := map[string]int{}
	return troupe.Handlers(troupe.Answer(func(_ *troupe.ActorContext, o Order) (Order, error) {
		stock[o.Item] -= o.Count
		return Order{o.Item, stock[o.Item]}, nil
	})), nil
}

type loaded struct{ table map[string]string }

func newDictionary(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
	c.After(time.Millisecond, loaded{map[string]string{"Haus": "house", "Baum": "tree"}}) // a real one would Ask for it
	return troupe.ActorFunc(func(c *troupe.ActorContext, message any) {
		l, ok := message.(loaded)
		if !ok {
			if err := c.Stash(); err != nil {
				c.Fail(err)
			}
			return
		}
		c.Become(troupe.Handlers(troupe.Handle(func(c *troupe.ActorContext, word *wrapperspb.StringValue) {
			c.Reply(wrapperspb.String(l.table[word.Value]))
		})))
		c.Unstash()
	}), nil
}

func onReaderFailure(f troupe.ActorFailure) troupe.ActorDecision {
	if f.Last || status.CodeOf(f.Err) == status.DataLoss {
		return troupe.DecideEscalate
	}
	return troupe.DecideRestart
}

func escalation(newReader troupe.ActorMaker) troupe.Option {
	reader := troupe.WithActor("reader", newReader, troupe.Restart{Most: 3}, troupe.OnFailure(onReaderFailure))
	return reader
}

type flush struct{}

func actorOfHandlers(store func(sum int64) *wrapperspb.Int64Value) troupe.Option {
	newSum := func(c *troupe.ActorContext, arguments any) (troupe.Actor, error) {
		var sum int64
		c.Every(time.Second, flush{})
		return troupe.Handlers(
			troupe.Handle(func(c *troupe.ActorContext, m *wrapperspb.Int64Value) { sum += m.Value }),
			troupe.Handle(func(c *troupe.ActorContext, _ flush) {
				c.Ask(troupe.ActorAt("/job:ps/task:0", "store"), store(sum), 5*time.Second, sum)
			}),
			troupe.Handle(func(c *troupe.ActorContext, a troupe.ActorAnswer) {
				if a.Err == nil {
					sum -= a.Tag.(int64) // which the store has
				}
			}),
		), nil
	}
	return troupe.WithActor("sum", newSum, troupe.Restart{Most: 5, Within: time.Minute, Backoff: 100 * time.Millisecond})
}

func virtualActors(ctx context.Context, server *troupe.Server) (troupe.Option, *wrapperspb.Int64Value, error) {
	newAccount := func(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
		balance, err := load(c.Context(), c.Self().Name()) // its identity, such as alice
		if err != nil {
			return nil, err
		}
		return troupe.Handlers(
			troupe.Handle(func(c *troupe.ActorContext, m *wrapperspb.Int64Value) { balance += m.Value }),
			troupe.Answer(func(*troupe.ActorContext, *emptypb.Empty) (*wrapperspb.Int64Value, error) {
				return wrapperspb.Int64(balance), nil
			}),
		), nil
	}
	accounts := troupe.WithActor("account", newAccount, troupe.Virtual{Job: "worker", Idle: time.Hour})
	balance, err := troupe.Ask[*wrapperspb.Int64Value](ctx, server, troupe.VirtualActor("account", "alice"), &emptypb.Empty{})
	return accounts, balance, err
}

func topics(ctx context.Context, server *troupe.Server) (troupe.Option, <-chan any, error) {
	newDashboard := func(c *troupe.ActorContext, _ any) (troupe.Actor, error) {
		if err := c.Subscribe("orders"); err != nil {
			return nil, err
		}
		sold := map[string]int{}
		return troupe.Handlers(troupe.Handle(func(c *troupe.ActorContext, o Order) { sold[o.Item] += o.Count })), nil
	}
	err := server.Publish(ctx, "orders", Order{"tea", 3})
	if err != nil {
		return nil, nil, err
	}
	orders, err := server.Subscribe(ctx, "orders") // a <-chan any, until ctx ends
	return troupe.WithActor("dashboard", newDashboard), orders, err
}

func aPool(ctx context.Context, server *troupe.Server, image any, newResizer troupe.ActorMaker) ([]troupe.Option, *wrapperspb.BytesValue, error) {
	resizer := troupe.WithActor("resizer", newResizer)
	resizers := troupe.WithActor("resizers", troupe.Pool{Kind: "resizer", Job: "worker", Each: 4, Route: troupe.LeastLoaded, Retries: 2}.Make)
	pool, err := server.Spawn(ctx, "resizers", troupe.ActorAt("", "resizers"), nil)
	if err != nil {
		return nil, nil, err
	}
	small, err := troupe.Ask[*wrapperspb.BytesValue](ctx, server, pool, image)
	return []troupe.Option{resizer, resizers}, small, err
}

func load(context.Context, string) (int64, error) { return 0, nil }

func clientOfActors(ctx context.Context) (int64, error) {
	c, err := client.Dial(ctx, "grpc://10.0.0.1:2222")
	if err != nil {
		return 0, err
	}
	votes := c.Actor("worker:1", "votes")
	err = votes.Send(ctx, wrapperspb.Int64(3))
	if err != nil {
		return 0, err
	}
	sum, err := client.Ask[*wrapperspb.Int64Value](ctx, votes, &emptypb.Empty{})
	return sum.GetValue(), err
}

func outsideTheCluster() (any, error) {
	system := actor.NewActorSystem()
	remote.NewRemote(system, remote.Configure("10.0.0.9", 8090)).Start()
	answer, err := system.Root.RequestFuture(actor.NewPID("10.0.0.1:2222", "votes"), &emptypb.Empty{}, time.Second).Result()
	return answer, err
}

func stageBetweenDatasets[Record, Row any](ctx context.Context, session *troupe.Session, next []op.Output, rowOf func(Record) (Row, error), producer interface {
	Range(ctx context.Context, rows iter.Seq2[Row, error]) error
},
) error {
	rows := pipeline.Map(pipeline.Elements[Record](ctx, session, next...), rowOf) // rowOf is a func(Record) (Row, error)
	err := producer.Range(ctx, rows)
	return err
}

func deliveryAtLeastOnce[Row any](ctx context.Context, client *troupe.Client, queue *pipeline.Of[Row], use func(*pipeline.Batch[Row], error) bool) error {
	session := pipeline.Reconnect(func(ctx context.Context) (pipeline.OpenedSession, error) { return client.NewSession(ctx, nil, nil) })
	producer, err := queue.Producer(ctx, session, pipeline.ProducerOptions{Retry: time.Minute})
	if err != nil {
		return err
	}
	defer producer.Close(ctx)
	consumer, err := queue.Consumer(ctx, session, pipeline.ConsumerOptions{Batch: 128, Lease: 30 * time.Second, Retry: time.Minute})
	if err != nil {
		return err
	}
	for batch, err := range consumer.Batches(ctx) {
		if !use(batch, err) {
			return err
		}
	}
	return nil
}

func clientWithAToken(ctx context.Context) (*troupe.Client, error) {
	credentials, err := access.LoadCredentials(access.CredentialConfig{CredentialFiles: access.CredentialFiles{CA: "ca.pem"}})
	if err != nil {
		return nil, err
	}
	token, err := access.LoadTokenFile("bob.token", nil) // read again when it changes
	if err != nil {
		return nil, err
	}
	c, err := troupe.Dial(ctx, "grpc://10.0.0.2:2222", client.WithCredentials(credentials), client.WithTokenFile(token))
	return c, err
}

func functionsThatGraphsCall(ctx context.Context, cluster troupe.ClusterSpec) (*troupe.Server, error) {
	clock := func(_ context.Context, call *troupe.FunctionCall) ([]*tensor.Tensor, error) {
		now := tensor.FromScalar(time.Now().Unix())
		return []*tensor.Tensor{now}, nil
	}
	server, err := troupe.NewServer(ctx, cluster, troupe.WithFunction("clock", clock))
	return server, err
}

// The following code is in package comments. TestCodeOfPackageComments checks that it is the same.

func aServer(ctx context.Context) error {
	server, err := troupe.NewServer(ctx, troupe.ClusterSpec{
		"ps":     {"10.0.0.1:2222"},
		"worker": {"10.0.0.2:2222", "10.0.0.3:2222"},
	}, troupe.WithJob("worker"), troupe.WithTask(1))
	if err != nil {
		return err
	}
	defer server.Stop(ctx)
	fmt.Println(server.Target()) // what tf.compat.v1.Session takes
	err = server.Join(ctx)
	return err
}

func aGraph(ctx context.Context, master *troupe.Server) ([][]float32, error) {
	s := op.NewScope()
	x := op.Placeholder(s, tensor.Float32)
	y := op.MatMul(s, x, x, attr.TransposeB(true))
	graph, err := s.GraphDef()
	if err != nil {
		return nil, err
	}
	session, err := master.NewSession(ctx, graph, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close(ctx)
	gram, err := troupe.Fetch[[][]float32](ctx, session, troupe.Feeds{x: [][]float32{{1, 2}, {3, 4}}}, y)
	return gram, err
}

func nodes() (any, op.Output, error) {
	s := op.NewScope()
	x := op.Placeholder(s, tensor.Float32, attr.Shape(shape.Of(-1, 784)))
	w := op.NewVariable(s, op.Fill(s, op.Const(s, []int32{784, 10}), op.Const(s, float32(0))))
	y := op.Softmax(s, op.MatMul(s, x, w.Read(s)))
	def, err := s.GraphDef()
	return def, y, err
}

func attributes(s *op.Scope, a, b op.Output) op.Output {
	y := op.MatMul(s, a, b, attr.TransposeA(true))
	return y
}

func gradients(s *op.Scope, y, want, axes, w op.Output) op.Output {
	loss := op.Mean(s, op.SquaredDifference(s, y, want), axes)
	dw := grad.Gradients(s, []op.Output{loss}, []op.Output{w})[0].Dense(s)
	return dw
}

func training(s *op.Scope, loss op.Output) []op.Runnable {
	step := train.Minimize(s, train.NewAdam(0.001), loss)
	init := op.Initialize(s) // after Minimize: optimizers have variables of their own
	return []op.Runnable{step, init}
}

func errorsOfSteps(err error) {
	var e *status.Error
	switch {
	case errors.Is(err, context.Canceled): // the context of the call was cancelled
	case errors.Is(err, context.DeadlineExceeded): // the call or its step ran out of time
	case errors.As(err, &e):
		log.Print(e.Code, e.Task(), e.Node())
	}
}

func queueOfRows(ctx context.Context, session *troupe.Session, scope *op.Scope) (any, error) {
	type Row struct {
		Image [784]float32
		Label int64
	}
	queue, err := pipeline.Declare[Row](pipeline.Queue{Name: "rows", Device: "/job:ps/task:0", Capacity: 4096})
	if err != nil {
		return nil, err
	}
	var rows iter.Seq2[Row, error]
	producer, err := queue.Producer(ctx, session, pipeline.ProducerOptions{})
	if err != nil {
		return nil, err
	}
	err = producer.Range(ctx, rows) // any iter.Seq2[Row, error]
	if err != nil {
		return nil, err
	}
	consumer, err := queue.Consumer(ctx, session, pipeline.ConsumerOptions{Batch: 128, Prefetch: 2})
	if err != nil {
		return nil, err
	}
	for batch, err := range consumer.Batches(ctx) {
		fmt.Println(batch, err)
	}
	dataset := queue.Dataset(scope)
	return dataset, nil
}

func aClient(ctx context.Context, graph *graphpb.GraphDef, feeds map[string]*tensor.Tensor) ([]*tensor.Tensor, error) {
	c, err := client.Dial(ctx, "grpc://10.0.0.2:2222")
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	session, err := c.NewSession(ctx, graph, nil)
	if err != nil {
		return nil, err
	}
	defer session.Close(ctx)
	out, err := session.Run(ctx, feeds, []string{"y:0"}, nil)
	return out, err
}

var _ = []any{actorsOfAProgram, greeted, greetedByANode, nodeThatJoins, serverThatKeeps, programThatIsAServer, newShop, actorOfHandlers, virtualActors, escalation, topics, aPool, clientOfActors, outsideTheCluster, stageBetweenDatasets[int64, string], deliveryAtLeastOnce[int64],
	clientWithAToken, functionsThatGraphsCall,
	aServer, aGraph, nodes, attributes, gradients, training, errorsOfSteps, queueOfRows, aClient}
