// Paramserver is a Go service with an embedded parameter server. Trainers connect to it at one port (grpc://, also from TensorFlow in
// Python) and update its variables, while the service reads the variables in its own process to answer HTTP requests.
//
//	go run ./examples/paramserver              trains with two trainers over the network while answering requests
//	go run ./examples/paramserver -serve       serves until it is stopped, and prints its addresses
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/train"
	"golang.org/x/sync/errgroup"
)

// model is a cubic polynomial in x, whose four coefficients are a variable on the parameter server.
type model struct {
	scope           *op.Scope
	x, y, loss, out op.Output
	step, init      *op.Operation
}

func newModel() *model {
	s := op.NewScope().WithDevice("/job:ps/task:0")
	m := &model{scope: s, x: op.Placeholder(s, tensor.Float32, attr.Shape(shape.Of(-1))), y: op.Placeholder(s, tensor.Float32, attr.Shape(shape.Of(-1)))}
	coefficients := op.NewVariable(s.WithName("coefficients"), op.Const(s, [][]float32{{0}, {0}, {0}, {0}}))
	square := op.Square(s, m.x)
	powers := op.Pack(s, []op.Output{op.OnesLike(s, m.x), m.x, square, op.Mul(s, square, m.x)}, attr.Axis(1))
	m.out = op.Squeeze(s, op.MatMul(s, powers, coefficients.Read(s)), attr.SqueezeDims([]int64{1}))
	m.loss = op.Mean(s, op.SquaredDifference(s, m.out, m.y), op.Const(s, []int32{0}))
	m.step = train.Minimize(s, train.NewAdam(0.05), m.loss)
	m.init = op.Initialize(s)
	return m
}

// open opens a session of the model, on a server in this process or on one that a client is connected to.
func (m *model) open(ctx context.Context, where troupe.Master) (*troupe.Session, error) {
	def, err := m.scope.GraphDef()
	if err != nil {
		return nil, err
	}
	return where.NewSession(ctx, def, nil)
}

// teach is a trainer: it connects to the parameter server over the network and feeds it points of the curve y = x³ - x.
func teach(ctx context.Context, target string, steps int, seed uint64) (troupe.Progress, error) {
	client, err := troupe.Dial(ctx, target)
	if err != nil {
		return troupe.Progress{}, err
	}
	defer client.Close(ctx)
	m, random := newModel(), rand.New(rand.NewPCG(seed, 0))
	session, err := m.open(ctx, client)
	if err != nil {
		return troupe.Progress{}, err
	}
	defer session.Close(ctx)
	return troupe.Train(ctx, session, troupe.Training{Step: m.step, Loss: m.loss, Batches: func(yield func(troupe.Feeds, error) bool) {
		for range steps {
			x, y := make([]float32, 64), make([]float32, 64)
			for i := range x {
				x[i] = 4*random.Float32() - 2
				y[i] = x[i]*x[i]*x[i] - x[i]
			}
			if !yield(troupe.Feeds{m.x: x, m.y: y}, nil) {
				return
			}
		}
	}})
}

// service answers GET /?x=2 with the model's current value at x.
type service struct {
	model   *model
	session *troupe.Session
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, err := strconv.ParseFloat(r.URL.Query().Get("x"), 32)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	y, err := troupe.Fetch[[]float32](r.Context(), s.session, troupe.Feeds{s.model.x: []float32{float32(x)}}, s.model.out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, "%.2f", y[0])
}

func run(ctx context.Context, out io.Writer, serve bool) (err error) {
	server, err := troupe.NewServer(ctx, troupe.ClusterSpec{"ps": {"localhost:0"}}, troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(ctx)) }()
	s := &service{model: newModel()}
	if s.session, err = s.model.open(ctx, server); err != nil {
		return err
	}
	if _, err := s.session.Eval(ctx, nil, s.model.init); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	var answering errgroup.Group
	answering.Go(func() error { return web.Serve(listener) })
	url := fmt.Sprintf("http://%s/?x=2", listener.Addr())
	if serve {
		fmt.Fprintf(out, "trainers: %s, requests: %s\n", server.Target(), url)
		return answering.Wait()
	}
	ask := func(when string) error {
		answer, err := http.Get(url)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		y, err := io.ReadAll(answer.Body)
		fmt.Fprintf(out, "%s x = 2 gives %s\n", when, y)
		return err
	}
	if err := ask("before the training"); err != nil {
		return err
	}
	var trainers errgroup.Group
	for seed := range uint64(2) {
		trainers.Go(func() error {
			_, err := teach(ctx, server.Target(), 400, seed)
			return err
		})
	}
	if err := trainers.Wait(); err != nil {
		return err
	}
	if err := ask("after it"); err != nil {
		return err
	}
	http.DefaultClient.CloseIdleConnections()
	if err := web.Shutdown(ctx); err != nil {
		return err
	}
	if err := answering.Wait(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func main() {
	serve := flag.Bool("serve", false, "serve until stopped")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *serve); err != nil {
		log.Fatal(err)
	}
}
