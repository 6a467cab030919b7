// amqplib_client - node's amqplib as a foreign program: publishes, consumes, asks and answers.
//
//   amqplib_client.js URL publish EXCHANGE          one message of each shape, confirmed
//   amqplib_client.js URL ids EXCHANGE KEY          one id in each of the types that it can be sent in
//   amqplib_client.js URL lost EXCHANGE             a message that nobody is bound for: is it returned?
//   amqplib_client.js URL post EXCHANGE KEY HEADERS [BODY]
//   amqplib_client.js URL consume QUEUE COUNT       prints each as a line of JSON
//   amqplib_client.js URL headers EXCHANGE QUEUE ARGUMENTS   a headers exchange, and a queue bound to it
//   amqplib_client.js URL ask EXCHANGE KEY TEXT     by direct reply-to, prints the answer
//   amqplib_client.js URL answer QUEUE              answers the next message
//   amqplib_client.js URL report QUEUE DONE RESULT  takes a job and reports it as done
//   amqplib_client.js URL reject QUEUE              takes a job and fails
'use strict';

const amqp = require('amqplib');

const everyByte = Buffer.from(Array.from({ length: 256 }, (_, i) => i));

const headers = {
  yes: true, no: false, nothing: null, text: 'zwölf ☕', empty: '', bytes: everyByte,
  byte: -128, short: 30000, int: -70000, long: 5000000000, most: Number.MAX_SAFE_INTEGER, double: 0.1,
  uint8: { '!': 'uint8', value: 255 }, uint16: { '!': 'uint16', value: 65535 },
  uint32: { '!': 'uint32', value: 4294967295 }, int64: { '!': 'int64', value: 1 },
  float: { '!': 'float', value: 0.5 }, decimal: { '!': 'decimal', value: { places: 2, digits: 150 } },
  time: { '!': 'timestamp', value: 1782640800 },
  list: [1, 'two', [3.5, null], { four: true }], table: { a: { b: { c: [] } } }, 'größe': 1,
};

const shapes = [
  [Buffer.from('all'), {
    contentType: 'application/json; charset=utf-8', contentEncoding: 'gzip', headers, deliveryMode: 2, priority: 9,
    correlationId: 'cörrelation', replyTo: 'answers', expiration: '600000', messageId: 'amqplib-1',
    timestamp: 1782640800, type: 'order.created', userId: 'guest', appId: 'shop',
  }],
  [Buffer.alloc(0), { messageId: 'amqplib-2' }],
  [everyByte, { messageId: 'amqplib-3', persistent: false, priority: 0, CC: ['nowhere'] }],
  [Buffer.alloc(300000, 'x'), { messageId: 'amqplib-4', persistent: true }],
  [Buffer.from('no properties'), {}],
];

const ids = [
  42, { '!': 'uint8', value: 42 }, { '!': 'int16', value: 42 }, { '!': 'uint16', value: 42 }, { '!': 'int32', value: 42 },
  { '!': 'uint32', value: 42 }, { '!': 'int64', value: 42 }, { '!': 'double', value: 42 }, { '!': 'float', value: 42 },
  { '!': 'decimal', value: { places: 0, digits: 42 } }, { '!': 'timestamp', value: 42 }, '42', Buffer.from('42'),
];

// Bytes are printed as hex digits, and the relay's own headers apart from the others.
function describe(message) {
  const plain = (value) => {
    if (Buffer.isBuffer(value)) return { bytes: value.toString('hex') };
    if (Array.isArray(value)) return value.map(plain);
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, plain(field)]));
  };
  const table = plain(message.properties.headers || {});
  const own = Object.entries(table).filter(([name]) => name.startsWith('x-onlyonce-'));
  own.forEach(([name]) => delete table[name]);
  return JSON.stringify({
    properties: { ...message.properties, headers: table }, own: Object.fromEntries(own),
    body: message.content.toString('hex'),
  });
}

function take(channel, queue, count, handle) {
  return new Promise((resolve) => {
    let taken = 0;
    channel.prefetch(count);
    channel.consume(queue, async (message) => {
      await handle(message);
      taken += 1;
      if (taken === count) resolve();
    });
  });
}

const commands = {
  async publish(channel, exchange) {
    for (const [body, options] of shapes) channel.publish(exchange, 'shape', body, { ...options, mandatory: true });
    await channel.waitForConfirms();
  },

  async ids(channel, exchange, key) {
    for (const id of ids) channel.publish(exchange, key, Buffer.from('x'), { headers: { id } });
    await channel.waitForConfirms();
    console.log(ids.length);
  },

  async lost(channel, exchange) {
    channel.on('return', (message) => console.log(message.fields.replyText, message.content.toString()));
    channel.publish(exchange, 'nowhere', Buffer.from('lost'), { mandatory: true });
    await channel.waitForConfirms();
  },

  async post(channel, exchange, key, fields, body = '') {
    channel.publish(exchange, key, Buffer.from(body), { headers: JSON.parse(fields), mandatory: true });
    await channel.waitForConfirms();
  },

  async consume(channel, queue, count) {
    await take(channel, queue, Number(count), (message) => {
      console.log(describe(message));
      channel.ack(message);
    });
  },

  async headers(channel, exchange, queue, fields) {
    await channel.assertExchange(exchange, 'headers', { durable: true });
    await channel.assertQueue(queue, { durable: true });
    await channel.bindQueue(queue, exchange, '', JSON.parse(fields));
  },

  async ask(channel, exchange, key, text) {
    const answer = new Promise((resolve) => {
      channel.consume('amq.rabbitmq.reply-to', resolve, { noAck: true });
    });
    channel.publish(exchange, key, Buffer.from(text), { replyTo: 'amq.rabbitmq.reply-to', correlationId: text });
    const message = await answer;
    console.log(message.properties.correlationId, message.content.toString());
  },

  async answer(channel, queue) {
    await take(channel, queue, 1, async (message) => {
      const { replyTo, correlationId } = message.properties;
      channel.publish('', replyTo, Buffer.from(`amqplib answers ${message.content}`), { correlationId });
      await channel.waitForConfirms();
      channel.ack(message);
    });
  },

  // The headers go back just as the library read them.
  async report(channel, queue, done, result) {
    await take(channel, queue, 1, async (message) => {
      channel.publish('', done, Buffer.from(result), { headers: message.properties.headers });
      await channel.waitForConfirms();
      channel.ack(message);
    });
  },

  async reject(channel, queue) {
    await take(channel, queue, 1, (message) => channel.nack(message, false, false));
  },
};

async function main() {
  const [url, command, ...rest] = process.argv.slice(2);
  const connection = await amqp.connect(url);
  const channel = await connection.createConfirmChannel();
  await commands[command](channel, ...rest);
  await channel.close();
  await connection.close();
}

main().catch((error) => {
  console.error(String(error));
  process.exit(1);
});
