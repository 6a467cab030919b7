"""pika_client - Debian's python3-pika as a foreign program, with the commands of amqplib_client.js.

    pika_client.py URL publish EXCHANGE | ids EXCHANGE KEY | lost EXCHANGE | post EXCHANGE KEY HEADERS [BODY]
    pika_client.py URL consume QUEUE COUNT | ask EXCHANGE KEY TEXT | answer QUEUE | report QUEUE DONE RESULT
    pika_client.py URL reject QUEUE
"""
import datetime
import decimal
import json
import sys

import pika
from pika.compat import long

EVERY_BYTE = bytes(range(256))
HEADERS = {
    "yes": True, "no": False, "nothing": None, "text": "zwölf ☕", "empty": "", "bytes": EVERY_BYTE,
    "small": 1, "int": -70000, "long": 5000000000, "least": -(2**63), "most": 2**63 - 1, "own": long(7),
    "decimal": decimal.Decimal("1.25"), "time": datetime.datetime(2026, 6, 28, 10),
    "list": [1, "two", [None, False], {"four": True}], "table": {"a": {"b": {"c": []}}}, "größe": 1,
}
SHAPES = [
    (b"all", dict(content_type="application/json", content_encoding="gzip", headers=HEADERS, delivery_mode=2, priority=9,
                  correlation_id="cörrelation", reply_to="answers", expiration="600000", message_id="pika-1",
                  timestamp=1782640800, type="order.created", user_id="guest", app_id="shop", cluster_id="c")),
    (b"", dict(message_id="pika-2")),
    (EVERY_BYTE, dict(message_id="pika-3", delivery_mode=1, priority=0, headers={})),
    (b"x" * 300000, dict(message_id="pika-4", delivery_mode=2)),
    (b"no properties of pika", dict()),
]
IDS = [42, long(42), decimal.Decimal(42), datetime.datetime(1970, 1, 1, 0, 0, 42), "42", b"42"]


def plain(value):
    """What JSON has no type for: bytes as hex digits, the others as their text."""
    return {"bytes": value.hex()} if isinstance(value, bytes) else str(value)


def describe(properties, body):
    headers = properties.headers or {}
    own = {name: value for name, value in headers.items() if name.startswith("x-onlyonce-")}
    fields = dict(vars(properties))
    fields["headers"] = {name: value for name, value in headers.items() if name not in own}
    return json.dumps({"properties": fields, "own": own, "body": body.hex()}, default=plain)


def publish(channel, exchange):
    for body, fields in SHAPES:
        channel.basic_publish(exchange, "shape", body, pika.BasicProperties(**fields), mandatory=True)


def ids(channel, exchange, key):
    for value in IDS:
        channel.basic_publish(exchange, key, b"x", pika.BasicProperties(headers={"id": value}))
    print(len(IDS))


def lost(channel, exchange):
    try:
        channel.basic_publish(exchange, "nowhere", b"lost", mandatory=True)
    except pika.exceptions.UnroutableError as error:
        print(error.messages[0].method.reply_text, error.messages[0].body.decode())


def post(channel, exchange, key, headers, body=""):
    channel.basic_publish(exchange, key, body, pika.BasicProperties(headers=json.loads(headers)), mandatory=True)


def take(channel, queue, count=1):
    """So many messages, each acknowledged after what is done with it."""
    channel.basic_qos(prefetch_count=count)
    for method, properties, body in channel.consume(queue, inactivity_timeout=60):
        if method is None:
            sys.exit("nothing came")
        yield method, properties, body
        channel.basic_ack(method.delivery_tag)
        count -= 1
        if count == 0:
            break


def consume(channel, queue, count):
    for _, properties, body in take(channel, queue, int(count)):
        print(describe(properties, body))


def ask(channel, exchange, key, text):
    answers = channel.consume("amq.rabbitmq.reply-to", auto_ack=True, inactivity_timeout=0.1)
    next(answers)  # from now on it consumes, which has to come first
    asked = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=text)
    channel.basic_publish(exchange, key, text, asked)
    for method, properties, body in answers:
        if method is not None:
            print(properties.correlation_id, body.decode())
            break


def answer(channel, queue):
    for _, properties, body in take(channel, queue):
        reply = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, b"pika answers " + body, reply)


def report(channel, queue, done, result):
    """The headers go back just as the library read them."""
    for _, properties, _ in take(channel, queue):
        channel.basic_publish("", done, result, pika.BasicProperties(headers=properties.headers))


def reject(channel, queue):
    for method, _, _ in channel.consume(queue):
        channel.basic_reject(method.delivery_tag, requeue=False)
        break


def main():
    connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
    channel = connection.channel()
    channel.confirm_delivery()
    globals()[sys.argv[2]](channel, *sys.argv[3:])
    connection.close()


main()
