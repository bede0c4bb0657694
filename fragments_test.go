package troupe_test

import (
	"context"
	"iter"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/queues/pipeline"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The functions of this file are what the documents show in parts: they compile. TestFragmentsOfDocuments holds that they are the same.

func actorsOfAProgram(ctx context.Context, cluster troupe.ClusterSpec, newSum func(*troupe.ActorContext, proto.Message) (troupe.Actor, error)) (int64, error) {
	server, err := troupe.NewServer(ctx, cluster, troupe.WithJob("worker"), troupe.WithTask(1), troupe.WithActor("sum", newSum))
	if err != nil {
		return 0, err
	}
	sum, err := server.Spawn(ctx, "sum", troupe.ActorRef{Task: "/job:worker/task:0", Name: "votes"}, nil)
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

var _ = []any{actorsOfAProgram, outsideTheCluster, stageBetweenDatasets[int64, string], clientWithAToken}
