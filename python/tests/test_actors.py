"""Actors of a Go program: of the kind "counter", on the tasks of a cluster and of a secured one.

TROUPE_TEST_ACTORS says where they are: see e2e/python_actors_test.go."""

import json
import os
import shutil
import tempfile
import threading
import unittest
from unittest import mock

from google.protobuf import any_pb2, descriptor_pb2, empty_pb2, wrappers_pb2

import troupe
from troupe import _actors_pb

SERVERS = json.loads(os.environ.get("TROUPE_TEST_ACTORS", "{}"))


def number(value):
    return {"@type": "google.protobuf.Int64Value", "value": value}


EMPTY = {"@type": "google.protobuf.Empty"}
ANSWER = "type.googleapis.com/google.protobuf.Int64Value"


@unittest.skipUnless(SERVERS, "TROUPE_TEST_ACTORS is not set: the tests in e2e start the servers")
class Actors(unittest.TestCase):
    def spawn(self, task, name="", arguments=None):
        actor = troupe.Actor.spawn(SERVERS["target"], task, "counter", name, arguments, timeout=20)
        self.addCleanup(actor.close)
        return actor

    def fails(self, name, text):
        """Checks the error that a block raises."""
        test = self

        class Block:
            def __enter__(self):
                pass

            def __exit__(self, kind, error, traceback):
                test.assertIs(kind, troupe.ActorError, error)
                test.assertEqual(error.name, name)
                test.assertIn(text, error.message)
                test.assertEqual(str(error), f"{name}: {error.message}")
                return True

        return Block()

    def test_messages(self):
        for task in ("ps:0", "worker:0"):
            actor = self.spawn(task)
            self.assertTrue(actor.name.startswith("counter-"))
            self.assertEqual(actor.task, f"/job:{task[:-2]}/replica:0/task:0")
            actor.send(number(3))
            actor.send(wrappers_pb2.Int64Value(value=4), timeout=20)
            self.assertEqual(actor.ask(EMPTY, timeout=20), {"@type": ANSWER, "value": "7"})
            self.assertEqual(actor.ask(empty_pb2.Empty()), wrappers_pb2.Int64Value(value=7))
            with mock.patch("troupe._actors_pb.message_class", side_effect=KeyError):
                unknown = actor.ask(empty_pb2.Empty())
            self.assertEqual(unknown, any_pb2.Any(type_url=ANSWER, value=b"\x08\x07"))
            self.assertIn(f"'{actor.name}'", repr(actor))
            # Another object for the same actor, with the short name of its task.
            with troupe.Actor(SERVERS["target"], task, actor.name) as again:
                self.assertEqual(again.ask(EMPTY)["value"], "7")
            actor.end(timeout=20)
            with self.fails("NOT_FOUND", f"There is no actor {actor.name} on {actor.task}"):
                actor.ask(EMPTY)

    def test_values(self):
        actor = self.spawn("worker:0", arguments=5)
        actor.send(3)
        self.assertEqual(actor.ask(empty_pb2.Empty()), wrappers_pb2.Int64Value(value=8))
        for name, value in {"text": "Hällo", "flag": True, "number": -1.5, "bytes": b"\x00\xff"}.items():
            answer = actor.ask(name)
            self.assertEqual((type(answer), answer), (type(value), value))
        for value, message in {
            False: wrappers_pb2.BoolValue(),
            7: wrappers_pb2.Int64Value(value=7),
            0.5: wrappers_pb2.DoubleValue(value=0.5),
            "a": wrappers_pb2.StringValue(value="a"),
            b"a": wrappers_pb2.BytesValue(value=b"a"),
        }.items():
            self.assertEqual(troupe._actors_pb.wrap(value), message)
        with self.assertRaisesRegex(TypeError, "not a list"):
            actor.send([1])
        with self.assertRaises(ValueError):  # it does not fit into 64 bits
            actor.send(1 << 63)

    def test_arguments(self):
        for arguments in (number(5), wrappers_pb2.Int64Value(value=5)):
            self.assertEqual(self.spawn("", arguments=arguments).ask(EMPTY)["value"], "5")

    def test_errors(self):
        actor = self.spawn("worker:0", "only")
        with self.fails("ALREADY_EXISTS", "There is an actor only already"):
            self.spawn("worker:0", "only")
        with troupe.Actor.spawn(
            SERVERS["target"], "worker:0", "counter", "only", ensure=True, timeout=20
        ) as same:
            self.assertEqual(same.name, "only")
        with self.fails("INVALID_ARGUMENT", "needs a name"):
            troupe.Actor.spawn(SERVERS["target"], "worker:0", "counter", ensure=True)
        with self.fails("NOT_FOUND", 'no actors of kind "clown"; it has counter'):
            troupe.Actor.spawn(SERVERS["target"], "ps:0", "clown")
        with self.fails("OUT_OF_RANGE", "no such text"):
            actor.ask({"@type": "google.protobuf.StringValue", "value": "fail"})
        with self.fails("INVALID_ARGUMENT", 'does not know messages of type "a.B"'):
            actor.ask({"@type": "a.B"})
        with self.fails("INVALID_ARGUMENT", "does not name the type of its message"):
            actor.send({})
        with self.fails("DEADLINE_EXCEEDED", ""):
            actor.ask({"@type": "google.protobuf.BoolValue", "value": True}, timeout=0.1)
        with self.fails("RESOURCE_EXHAUSTED", "the limit is 1048576"):
            actor.send(wrappers_pb2.BytesValue(value=bytes(1 << 20)))
        with self.fails("UNAVAILABLE", ""):
            troupe.Actor("grpc://127.0.0.1:1", "", "x").ask(EMPTY)
        self.assertRaises(TypeError, actor.ask, ["text"])

    def test_publish(self):
        troupe.publish(SERVERS["target"], "news", number(1), timeout=20)
        troupe.publish(SERVERS["target"], "news", wrappers_pb2.Int64Value(value=2), timeout=20)
        with self.fails("INVALID_ARGUMENT", "not a name of a topic"):
            troupe.publish(SERVERS["target"], "the news", number(1))
        with self.fails("INVALID_ARGUMENT", 'does not know messages of type "a.B"'):
            troupe.publish(SERVERS["target"], "news", {"@type": "a.B"})

    def test_watch(self):
        for task in ("ps:0", "worker:0"):
            for text, name in (("stop", None), ("panic", "INTERNAL")):
                actor = self.spawn(task)
                with actor.watch(timeout=20) as watch:
                    self.assertRaises(TimeoutError, watch.wait, 0.01)
                    actor.send(wrappers_pb2.StringValue(value=text))
                    reason = watch.wait(20)
                    self.assertIs(watch.wait(), reason)
                self.assertEqual(reason and reason.name, name)
            self.assertEqual(actor.watch(20).wait(20).name, "NOT_FOUND")
            kept = self.spawn(task)
            watch = kept.watch()
            watch.cancel()
            with self.fails("CANCELLED", ""):
                watch.wait(20)
        with self.fails("INVALID_ARGUMENT", "is not a name of an actor"):
            troupe.Actor(SERVERS["target"], "", "").watch(20)

    def test_threads(self):
        actor = self.spawn("worker:0")
        threads = [
            threading.Thread(target=lambda: [actor.send(number(1)) for _ in range(25)])
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(actor.ask(EMPTY)["value"], "200")

    def test_security(self):
        target, ca, token = (SERVERS["secured"][key] for key in ("target", "ca", "token"))
        with tempfile.NamedTemporaryFile("w", suffix=".token") as file:
            file.write(token + "\n")
            file.flush()
            for security in ({"token": token}, {"token_file": file.name}):
                with troupe.Actor.spawn(
                    target, "", "counter", tls_ca=ca, timeout=20, **security
                ) as actor:
                    self.assertEqual(actor.ask(EMPTY)["value"], "0")
                    self.assertIsNone(self.ended(actor))
        with self.fails("PERMISSION_DENIED", "loopback may not exchange messages with actors"):
            troupe.Actor(target, "", "x", tls_ca=ca).ask(EMPTY)
        with self.fails("UNAUTHENTICATED", "unknown or was withdrawn"):
            troupe.Actor(target, "", "x", tls_ca=ca, token="troupe_x").ask(EMPTY)
        with self.fails("PERMISSION_DENIED", "client:eve may not exchange messages with actors"):
            troupe.Actor(target, "", "x", tls_ca=ca, token=SERVERS["secured"]["eve"]).ask(EMPTY)
        cert = {"tls_cert": SERVERS["secured"]["cert"], "tls_key": SERVERS["secured"]["key"]}
        with troupe.Actor.spawn(target, "", "counter", tls_ca=ca, timeout=20, **cert) as actor:
            self.assertEqual(actor.ask(EMPTY)["value"], "0")

    def test_replaced_certificates(self):
        secured = SERVERS["secured"]
        with tempfile.TemporaryDirectory() as folder:
            files = {flag: os.path.join(folder, flag) for flag in ("tls_ca", "tls_cert", "tls_key")}

            def replace(**by):
                for flag, what in by.items():
                    shutil.copyfile(secured[what], files[flag])

            replace(tls_ca="ca", tls_cert="cert", tls_key="key")
            actor = troupe.Actor.spawn(secured["target"], "", "counter", timeout=20, **files)
            with actor, actor.watch(20) as watch:
                replace(tls_cert="ca")  # whose key is another one: what was read before is used
                self.assertEqual(actor.ask(EMPTY, timeout=20)["value"], "0")
                replace(tls_cert="cert", tls_ca="cert")  # which is no authority
                with self.fails("UNAVAILABLE", ""):
                    actor.ask(EMPTY, timeout=20)
                replace(tls_ca="ca")
                self.assertEqual(actor.ask(EMPTY, timeout=20)["value"], "0")
                actor.end(20)
                self.assertIsNone(watch.wait(20))  # it has begun with the first ones
            with troupe.Actor.spawn(secured["target"], "", "counter", timeout=20, **files) as actor:
                for times in range(20):
                    os.utime(files["tls_ca"], (times, times))
                    self.assertEqual(actor.ask(EMPTY, timeout=20)["value"], "0")
                self.assertLessEqual(len(actor._connection._channels), actor._connection._KEPT)

    def ended(self, actor):
        with actor.watch(20) as watch:
            actor.end()
            return watch.wait(20)

    def test_descriptor(self):
        """The package's messages are those of the server."""
        served = descriptor_pb2.FileDescriptorProto.FromString(bytes.fromhex(SERVERS["descriptor"]))
        ours = _actors_pb.file()
        for message in served.message_type:
            for field in message.field:
                field.ClearField("json_name")
        self.assertEqual(list(ours.message_type), list(served.message_type))
        self.assertEqual(ours.package, served.package)


class Arguments(unittest.TestCase):
    def test_security(self):
        for target, security in (
            ("grpc://10.0.0.2:2222", {"token": "t"}),
            ("grpc://example.com:2222", {"token_file": "t"}),
            ("grpc://127.0.0.1:1", {"token": "t", "token_file": "t"}),
            ("grpc://127.0.0.1:1", {"tls_cert": "c", "tls_key": "k"}),
            ("grpc://127.0.0.1:1,grpc://127.0.0.1:2", {}),
        ):
            self.assertRaises(ValueError, troupe.Actor, target, "", "x", **security)
        for target in ("grpc://127.0.0.1:1", "localhost:1", "grpc://[::1]:1"):
            troupe.Actor(target, "", "x", token="t").close()
        self.assertRaises(FileNotFoundError, troupe.Actor, "h:1", "", "x", tls_ca="/none/ca.pem")

    def test_missing(self):
        with mock.patch.dict("sys.modules", {"grpc": None}):
            with self.assertRaisesRegex(ImportError, r"grpcio.*pip install grpcio protobuf"):
                troupe.Actor("grpc://127.0.0.1:1", "", "x")


if __name__ == "__main__":
    unittest.main()
