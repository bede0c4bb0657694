package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/remote/client"
)

const actorHelp = `

ACTOR is the task and the name, such as worker:1/actor:votes, or the name alone for an actor of the task
at TARGET, which reaches the actors of all tasks. The virtual actor alice of the kind account is
/kind:account/actor:alice. JSON is a message in the JSON form of protocol buffers
with its type, such as {"@type": "google.protobuf.Int64Value", "value": "3"}, or - to read it from
standard input. The program of the actor has to know the type; TARGET's need not.

Where a policy says who may do what, the action is actors.`

func newAsk() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ask TARGET[,TARGET…] ACTOR JSON",
		Short: "Send a message to a program's actor and print its answer",
		Long: `Ask sends a message to an actor of a program, waits for the answer and prints it as JSON, with its
type. troupe actors lists the actors of a task. It exits with 1 if there is no such actor or its answer
is an error, with 4 if its task cannot be reached or it does not answer in time.` + actorHelp,
		Example: `  troupe ask grpc://10.0.0.2:2222 worker:1/actor:votes '{"@type": "google.protobuf.Empty"}'`,
		Args:    actorAndMessage,
	}
	return query(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		actor, message, err := actorAndMessageOf(cmd, c, args)
		if err != nil {
			return err
		}
		answer, err := actor.AskJSON(ctx, message)
		if err != nil {
			return err
		}
		return printJSON(cmd.OutOrStdout(), json.RawMessage(answer))
	})
}

func newSend() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send TARGET[,TARGET…] ACTOR JSON",
		Short: "Send a message to a program's actor",
		Long: `Send sends a message to an actor of a program, at most once, and prints nothing. It waits while the
actor's queue is full. troupe ask also waits for an answer. It exits with 1 or 4 if the message
certainly does not arrive; if the actor of another task does not exist, that is only logged there.` + actorHelp,
		Example: `  troupe send grpc://10.0.0.2:2222 worker:1/actor:votes '{"@type": "google.protobuf.Int64Value", "value": "3"}'`,
		Args:    actorAndMessage,
	}
	return query(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		actor, message, err := actorAndMessageOf(cmd, c, args)
		if err != nil {
			return err
		}
		return actor.SendJSON(ctx, message)
	})
}

func newPublish() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish TARGET[,TARGET…] TOPIC JSON",
		Short: "Send a message to the programs' actors that subscribe to a topic",
		Long: `Publish sends a message to all actors of the cluster that subscribe to a topic, to each at most once,
and prints nothing. It waits while the queue of one of them is full. There need not be any.

JSON is a message in the JSON form of protocol buffers with its type, such as
{"@type": "google.protobuf.Int64Value", "value": "3"}, or - to read it from standard input. The program
at TARGET has to know the type.

Where a policy says who may do what, the action is actors.`,
		Example: `  troupe publish grpc://10.0.0.2:2222 weather/heat '{"@type": "google.protobuf.DoubleValue", "value": 31}'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 3 {
				return exit.Usage(fmt.Errorf("a target, a topic and a message are expected; %s", given(args)))
			}
			return nil
		},
	}
	return query(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		message, err := messageOf(cmd, args[1])
		if err != nil {
			return err
		}
		return c.PublishJSON(ctx, args[0], message)
	})
}

func actorAndMessage(_ *cobra.Command, args []string) error {
	if len(args) != 3 {
		return exit.Usage(fmt.Errorf("a target, an actor and a message are expected; %s", given(args)))
	}
	_, _, err := parseActor(args[1])
	return err
}

// actorAndMessageOf reads the arguments that follow a command's target.
func actorAndMessageOf(cmd *cobra.Command, c *client.Client, args []string) (actor *client.Actor, message string, err error) {
	task, name, err := parseActor(args[0])
	if err != nil {
		return nil, "", err
	}
	message, err = messageOf(cmd, args[1])
	if err != nil {
		return nil, "", err
	}
	return c.Actor(task, name), message, nil
}

// messageOf returns the JSON that is given as an argument, or on standard input.
func messageOf(cmd *cobra.Command, given string) (string, error) {
	if given != "-" {
		return given, nil
	}
	b, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), troupe.MaxActorMessage+1)) // the server refuses more
	if err != nil {
		return "", exit.Failed(fmt.Errorf("standard input: %w", err))
	}
	return string(b), nil
}

// parseActor parses an actor's task, or its kind if it is virtual, and its name. The task is empty if there is none.
func parseActor(text string) (task, name string, err error) {
	task, name, ok := strings.Cut(text, "/actor:")
	if !ok {
		task, name = "", text
	}
	if name == "" {
		return "", "", exit.Usage(fmt.Errorf("%q does not name an actor, as worker:1/actor:votes does", text))
	}
	if ok {
		if _, err := troupe.ParseActorRef(text); err != nil {
			return "", "", exit.Usage(err)
		}
	}
	return task, name, nil
}
