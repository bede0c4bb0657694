// Step runs one step on tasks of a cluster, and checks its result:
//
//	step [-for 5s] grpc://HOST:PORT /job:ps/task:0 /job:worker/task:0
//
// Each task multiplies a matrix by what the one before it has sent. With -for, the first task then counts until that time has passed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("step: ")
	lasts := flag.Duration("for", 0, "how long the step lasts")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("a target and the names of tasks are needed")
	}
	ctx, cancel := context.WithTimeout(context.Background(), *lasts+time.Minute)
	defer cancel()
	if err := run(ctx, flag.Arg(0), flag.Args()[1:], *lasts); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, target string, tasks []string, lasts time.Duration) (err error) {
	client, err := troupe.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(ctx)) }()

	// A rotation by a quarter, whose powers are exact in each type and on each processor.
	s := op.NewScope()
	quarter := [][]float32{{0, -1}, {1, 0}}
	fed := op.Placeholder(s, tensor.Float32)
	product := fed
	for _, task := range tasks[1:] {
		on := s.WithDevice(task)
		product = op.MatMul(on, product, op.Const(on, quarter))
	}
	first := s.WithDevice(tasks[0])
	product = op.MatMul(first, product, op.Const(first, quarter))
	start := op.Timestamp(first)
	counted := op.While(first, []op.Output{op.Const(first, int64(0)), start},
		func(s *op.Scope, v []op.Output) op.Output {
			return op.Less(s, op.Sub(s, v[1], start), op.Const(s, lasts.Seconds()))
		},
		func(s *op.Scope, v []op.Output) []op.Output {
			return []op.Output{op.AddV2(s, v[0], op.Const(s, int64(1))), op.Timestamp(s)}
		})[0]
	graph, err := s.GraphDef()
	if err != nil {
		return err
	}
	session, err := client.NewSession(ctx, graph, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close(ctx)) }()
	results, err := session.Eval(ctx, troupe.Feeds{fed: quarter}, product, counted)
	if err != nil {
		return err
	}
	for _, r := range results {
		defer r.Release()
	}
	got, err := tensor.To[[][]float32](results[0])
	if err != nil {
		return err
	}
	powers := [][][]float32{{{1, 0}, {0, 1}}, quarter, {{-1, 0}, {0, -1}}, {{0, 1}, {-1, 0}}}
	if want := powers[(len(tasks)+1)%len(powers)]; !slices.EqualFunc(got, want, slices.Equal) {
		return fmt.Errorf("%d tasks have made %v, not %v", len(tasks), got, want)
	}
	rounds, err := tensor.To[int64](results[1])
	if err != nil {
		return err
	}
	fmt.Printf("%d tasks have made %v; the first one has counted to %d in %v\n", len(tasks), got, rounds, lasts)
	if lasts > 0 && rounds == 0 {
		return errors.New("the first task has not counted")
	}
	return nil
}
